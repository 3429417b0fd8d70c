//! The network routes of one round: a proxy for its roles, and one without providers for gates, because gates run the
//! maker's code and need no model. A gate that names more hosts has its own proxy, so that no other program reaches
//! them.

use super::{EgressError, EgressOptions, EgressProxy, ModelProvider, PORT, UsedBytes};
use loopwright_core::network::{NetworkPolicy, NetworkTraffic};
use loopwright_core::spec::{Gate, LoopSpec};
use loopwright_sandbox::SandboxNetwork;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A proxy's settings for a sandbox view. The default reaches nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EgressRoute {
    /// The network that the kernel allows.
    pub network: SandboxNetwork,
    /// Variables by which programs find the proxy.
    pub vars: Vec<(&'static str, String)>,
    /// The host's file of certificates that programs may trust, if some TLS is decrypted.
    pub bundle: Option<PathBuf>,
}

impl EgressProxy {
    /// The settings with which a sandbox view uses this proxy.
    #[must_use]
    pub fn route(&self) -> EgressRoute {
        let door = |socket: &Path| SandboxNetwork::Door { socket: socket.to_owned(), port: PORT };
        let network = self.socket().map(door).unwrap_or_default();
        EgressRoute { network, vars: self.env(), bundle: self.bundle().map(Path::to_owned) }
    }
}

/// The proxies of one round. They end, with their sockets, when this is closed or dropped.
#[derive(Debug, Default)]
pub struct EgressRoutes {
    folder: Option<PathBuf>,
    /// The open proxies; the roles' proxy is the first, if they have one.
    open: Vec<EgressProxy>,
    has_roles: bool,
    /// The route of roles and probes.
    pub(crate) roles: EgressRoute,
    /// The route of gates that name no hosts themselves.
    pub(crate) gates: EgressRoute,
    /// The routes of gates that name more hosts, by the gate's name.
    pub(crate) own: BTreeMap<String, EgressRoute>,
}

impl EgressRoutes {
    /// Opens the proxies that a loop's `network` and its gates' need, with sockets in this folder; none if no host may
    /// be reached.
    ///
    /// # Errors
    /// When an entry cannot be read, or a proxy cannot be opened.
    pub fn open(folder: &Path, spec: &LoopSpec, providers: &[ModelProvider]) -> Result<Self, EgressError> {
        let mut ways = Self::default();
        ways.folder = Some(folder.to_owned());
        let policy = read(&spec.network)?;
        let used = UsedBytes::default();
        let options =
            |policy, providers| EgressOptions { policy, providers, used: used.clone(), ..EgressOptions::default() };
        ways.roles = ways.add("roles", options(policy.clone(), providers.to_vec()))?;
        ways.has_roles = !ways.open.is_empty();
        ways.gates = match providers {
            [] => ways.roles.clone(),
            [..] => ways.add("gates", options(policy.clone(), Vec::new()))?,
        };
        for (at, gate) in spec.gates.iter().enumerate() {
            if let Gate::Run(gate) = gate
                && !gate.network.is_empty()
            {
                let both = policy.clone().union(read(&gate.network)?);
                let way = ways.add(&format!("gate-{at}"), options(both, Vec::new()))?;
                ways.own.insert(gate.name.clone(), way);
            }
        }
        Ok(ways)
    }

    /// The route to these providers without kernel isolation; the default route if there are no providers.
    ///
    /// # Errors
    /// When the proxy cannot be opened.
    pub fn open_on_loopback(providers: Vec<ModelProvider>) -> Result<Self, EgressError> {
        let mut ways = Self::default();
        if !providers.is_empty() {
            let egress = EgressProxy::open_on_loopback(providers)?;
            ways.roles = egress.route();
            ways.has_roles = true;
            ways.open.push(egress);
        }
        Ok(ways)
    }

    fn add(&mut self, name: &str, options: EgressOptions) -> Result<EgressRoute, EgressError> {
        let Some(folder) = self.folder.as_ref().filter(|_| options.reaches_anything()) else {
            return Ok(EgressRoute::default());
        };
        let egress = EgressProxy::open(&folder.join(name), options)?;
        let way = egress.route();
        self.open.push(egress);
        Ok(way)
    }

    /// The proxy of the roles, which grants their starts access to providers.
    #[must_use]
    pub fn proxy(&self) -> Option<&EgressProxy> {
        self.open.first().filter(|_| self.has_roles)
    }

    /// Closes all of them, and returns their traffic.
    pub async fn close(&mut self) -> NetworkTraffic {
        let mut sum = NetworkTraffic::default();
        for egress in std::mem::take(&mut self.open) {
            sum.add(egress.close().await);
        }
        sum
    }
}

/// A checked spec has valid entries; one from an old record may not.
fn read(entries: &[String]) -> Result<NetworkPolicy, EgressError> {
    NetworkPolicy::read(entries).map_err(|(at, error)| EgressError::Entry {
        entry: entries.get(at).cloned().unwrap_or_default(),
        source: error,
    })
}

impl Drop for EgressRoutes {
    fn drop(&mut self) {
        self.open.clear();
        if let Some(folder) = &self.folder {
            // A leftover holds no secret, and the next engine that opens the state directory removes it.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
