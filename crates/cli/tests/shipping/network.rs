//! The network settings of the configuration with the real binary: an enterprise address, a private certificate authority
//! and an outbound proxy apply to the API and to pushes alike.

use super::receiver::LossyReceiver;
use super::stage::{NAME, PULL, ShippingStage};
use loopwright_testkit::fake_forge::FakeProxy;
use loopwright_testkit::fake_slack::{FakeSlack, SLACK_TOKEN};

/// A name that only the proxy knows.
const HOST: &str = "forge.example";

fn network_of_the_configuration_reaches_the_forge(kind: &'static str) {
    let stage = ShippingStage::on(kind, "L2", PULL);
    let tls = stage.forge.listen_tls(&[HOST]);
    let proxy = FakeProxy::start();
    proxy.add_host(HOST, tls.port);
    stage.repo.git(["remote", "set-url", "origin", &format!("https://{HOST}/{NAME}.git")]);
    let forge = |more: &str| {
        let token = stage.env.root().join("token").display().to_string();
        let text = format!(
            "forges:\n  work: {{ kind: {kind}, url: \"https://{HOST}\", token_file: {token}, proxy: \"{}\"{more} }}\n",
            proxy.url()
        );
        std::fs::write(stage.env.root().join("config.yaml"), text).expect("a configuration");
    };
    forge("");
    let doubted = stage.run(&["doctor"]).stdout();
    assert!(doubted.contains("ca_file"), "{kind}: the authority is unknown: {doubted}");
    forge(&format!(", ca_file: {}", tls.ca_file.display()));
    let round = stage.escalate();
    let shipped = stage.approve(&round, 0);
    assert_eq!(shipped["outcome"], "shipped", "{kind}: {shipped}");
    assert!(shipped["outbox"][0]["receipt"].to_string().contains(HOST), "{kind}: {shipped}");
    assert_eq!(stage.open_pulls().len(), 1, "{kind}");
    let log = proxy.log().join("\n");
    assert!(log.contains(&format!("CONNECT {HOST}:443 200")) && !log.contains("ghp_"), "{kind}: {log}");
}

#[test]
fn github_behind_a_proxy_with_a_private_authority_gets_a_pull_request() {
    network_of_the_configuration_reaches_the_forge("github");
}

#[test]
fn gitlab_behind_a_proxy_with_a_private_authority_gets_a_merge_request() {
    network_of_the_configuration_reaches_the_forge("gitlab");
}

#[test]
fn gitea_behind_a_proxy_with_a_private_authority_gets_a_pull_request() {
    network_of_the_configuration_reaches_the_forge("gitea");
}

/// The port of an address on loopback.
fn port(url: &str) -> u16 {
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    url.rsplit_once(':').map(|(_, rest)| digits(rest)).and_then(|port| port.parse().ok()).expect("a port")
}

#[test]
fn slack_and_a_webhook_behind_a_proxy_with_a_private_authority_get_their_messages() {
    let stage = ShippingStage::new("L2", "output: [pull-request, slack, { webhook: { targets: [deploy] } }]\n");
    let (slack, hook) = (FakeSlack::start(), LossyReceiver::reliable());
    let tls_of = |url: &str, name: &str| stage.forge.listen_tls_before(port(url), &[name]);
    let (chat, hooks) = (tls_of(slack.url(), "slack.example"), tls_of(&hook.url, "hooks.example"));
    let proxy = FakeProxy::start();
    proxy.add_host("slack.example", chat.port);
    proxy.add_host("hooks.example", hooks.port);
    let (token, key) = (stage.write_secret("slack", SLACK_TOKEN), stage.write_secret("hook", "a-secret-of-many-bytes"));
    let configure = |chat_ca: &str| {
        let (url, hook_ca) = (proxy.url(), hooks.ca_file.display());
        stage.configure(&format!(
            "slack: {{ token_file: {token}, channel: C1, api_url: \"https://slack.example/api\", proxy: \
             \"{url}\"{chat_ca} }}\nwebhooks_out: {{ deploy: {{ url: \"https://hooks.example/run\", secret_file: {key}, \
             proxy: \"{url}\", ca_file: {hook_ca} }} }}\n"
        ));
    };
    configure("");
    let doubted = stage.run(&["doctor"]).stdout();
    assert!(doubted.contains("ca_file"), "the authority of Slack is unknown: {doubted}");
    configure(&format!(", ca_file: {}", chat.ca_file.display()));
    stage.set_script("one", "stage slack.md \"Done.\"\nstage webhook-deploy.json \"{}\"\n");
    let round = stage.escalate();
    let shipped = stage.approve(&round, 0);
    assert_eq!((&shipped["outcome"], slack.messages().len()), (&"shipped".into(), 1), "{shipped}");
    assert_eq!(hook.total(), 1, "{shipped}");
    let log = proxy.log().join("\n");
    for name in ["slack.example", "hooks.example"] {
        assert!(log.contains(&format!("CONNECT {name}:443 200")), "{log}");
    }
    assert!(!log.contains(SLACK_TOKEN), "{log}");
}
