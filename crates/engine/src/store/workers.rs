//! Workers: processes that take offered rounds. A row says what a machine has; its process's lease says whether it is
//! connected. The engine decides which rounds a worker asks for.

use loopwright_core::dispatch::FleetMember;
use loopwright_core::round::BoundaryLevel;
use loopwright_core::worded;

use super::Store;
use super::conn::{SqlArg, SqlColumn, SqlConnection, SqlResult, SqlRow, args, word_column};
use super::error::{StoreError, StoreErrorKind};
use super::hints;
use super::process::{self, ProcessRow};
use super::rows::{SqlTable, insert_sql, select, table};

worded! {
    /// Whether a worker takes rounds.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum WorkerState {
        /// It takes rounds.
        Active = "active",
        /// It takes no more rounds, and finishes those it has.
        Draining = "draining",
    }
}

word_column!(WorkerState, "state of a worker");

table! {
    /// A worker as recorded.
    WorkerRow in "workers" by ["name"], since 15;
    /// Its name.
    name: String,
    /// The opening of the store that serves it.
    instance: String,
    /// The name of its machine.
    host: String,
    /// Its labels, as a JSON list.
    labels: String,
    /// The agents that its machine has, as a JSON list.
    agents: String,
    /// The ids of the repositories that it has, as a JSON list.
    repos: String,
    /// The boundary that its machine can enforce.
    boundary: String,
    /// How many rounds it runs at once.
    slots: i64,
    /// Whether it takes rounds.
    state: WorkerState,
    /// Its version of Loopwright.
    version: String,
    /// How far its clock is ahead of the database's, in milliseconds.
    offset_ms: i64,
    /// When it connected, by the database's clock.
    since_ms: i64,
}

/// A worker with what the store knows about its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownWorker {
    /// The row.
    pub row: WorkerRow,
    /// Its process, unless that is gone.
    pub process: Option<ProcessRow>,
    /// The rounds that it runs now.
    pub rounds: Vec<String>,
}

impl KnownWorker {
    /// Whether its process is there.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.process.is_some()
    }

    /// Whether its machine enforces the kernel's boundary.
    #[must_use]
    pub fn can_isolate(&self) -> bool {
        self.row.boundary == BoundaryLevel::Kernel.word()
    }

    /// The worker as the dispatcher sees it; a list that cannot be read is empty, so that it gets no round.
    #[must_use]
    pub fn member(&self) -> FleetMember {
        FleetMember {
            name: self.row.name.clone(),
            labels: words(&self.row.labels).into_iter().collect(),
            agents: words(&self.row.agents).into_iter().collect(),
            slots: usize::try_from(self.row.slots).unwrap_or(0),
            is_draining: self.row.state == WorkerState::Draining,
        }
    }
}

/// The words of a JSON list.
#[must_use]
pub fn words(list: &str) -> Vec<String> {
    serde_json::from_str(list).unwrap_or_default()
}

/// Records a worker under its name; a drained one stays drained. The name of a connected worker is a conflict.
pub(super) async fn put_worker(conn: &mut SqlConnection, row: &WorkerRow) -> SqlResult<()> {
    let sets = WorkerRow::COLUMNS.iter().filter(|column| !matches!(**column, "name" | "state"));
    let sets: Vec<_> = sets.map(|column| format!("\"{column}\" = excluded.\"{column}\"")).collect();
    let sql = format!("{} ON CONFLICT (name) DO UPDATE SET {}", insert_sql::<WorkerRow>(), sets.join(", "));
    conn.exec(sql, &row.args()).await.map(drop)
}

/// Changes whether a worker takes rounds. An unknown worker is a conflict.
pub(super) async fn set_state(conn: &mut SqlConnection, name: &str, state: WorkerState) -> SqlResult<()> {
    match conn.exec("UPDATE workers SET state = $1 WHERE name = $2", args![state.word(), name]).await? {
        0 => Err(StoreErrorKind::Conflict(format!("there is no worker `{name}`"))),
        _ => hints::notify(conn).await,
    }
}

/// Removes a worker that is not drained, if this opening serves it.
pub(super) async fn remove(conn: &mut SqlConnection, name: &str, instance: &str) -> SqlResult<()> {
    let sql = "DELETE FROM workers WHERE name = $1 AND instance = $2 AND state = 'active'";
    conn.exec(sql, args![name, instance]).await.map(drop)
}

/// Workers.
impl Store {
    /// All workers, by name.
    pub async fn workers(&self) -> Result<Vec<KnownWorker>, StoreError> {
        let others = self.others().await?;
        let own = self.instance.as_deref().unwrap_or("-");
        let read = async |conn: &mut SqlConnection| {
            let mut known = Vec::new();
            for row in conn.rows(select::<WorkerRow>("ORDER BY name"), &[]).await? {
                let row = WorkerRow::read(&row)?;
                let sql = "SELECT name FROM leases WHERE instance = $1 ORDER BY name";
                let held = conn.rows(sql, args![&row.instance]).await?;
                let rounds = held.iter().map(|lease| lease.get(0)).collect::<SqlResult<_>>()?;
                let mine = match row.instance == own {
                    true => conn.rows(select::<ProcessRow>("WHERE instance = $1"), args![own]).await?,
                    false => Vec::new(),
                };
                let mine = mine.first().map(ProcessRow::read).transpose()?;
                let process = mine.or_else(|| others.iter().find(|other| other.instance == row.instance).cloned());
                known.push(KnownWorker { row, process, rounds });
            }
            Ok(known)
        };
        self.with_reader("workers", WorkerRow::SINCE, read).await
    }

    /// The database's clock.
    pub async fn server_ms(&self) -> Result<i64, StoreError> {
        let now = async |conn: &mut SqlConnection| process::now_ms(conn).await;
        self.with_reader("the clock", 1, now).await
    }

    /// The name of this opening of the store; empty for one that only reads.
    #[must_use]
    pub fn instance_name(&self) -> &str {
        self.instance.as_deref().unwrap_or_default()
    }
}
