//! The network between Loopwright and a forge: private certificate authorities, proxies, base addresses, redirects.

mod support;

use loopwright_core::deliver::{Deliver as _, DeliverErrorKind};
use loopwright_core::forge::{ForgeError, ItemQuery, ReadForge as _};
use loopwright_forge::{ForgeConnection, RemoteKind, SecretText, connect};
use loopwright_testkit::fake_forge::{FakeForge, FakeProxy, ForgeFault};
use support::{REPO, TestClock, World, api_url, routes};

#[tokio::test]
async fn private_certificate_authority_is_trusted_only_with_its_file() {
    let world = World::new(RemoteKind::GitHub);
    let tls = world.fake.listen_tls(&["localhost"]);
    let mut connection = ForgeConnection { api_url: Some(tls.url.clone()), ..world.connection.clone() };
    let forge = connect(&connection, world.clock.source()).expect("a connection");
    let error = forge.pulls(&ItemQuery::open(), None).await.expect_err("an unknown authority");
    assert!(matches!(&error, ForgeError::Unavailable { text, .. } if text.contains("ca_file")), "{error:?}");
    connection.network.ca_file = Some(tls.ca_file);
    let forge = connect(&connection, world.clock.source()).expect("a connection");
    assert_eq!(forge.pulls(&ItemQuery::open(), None).await.expect("a list").rows.len(), 0);
}

#[tokio::test]
async fn unusable_authority_file_is_an_error_before_any_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, "no certificate").expect("a file");
    for file in [file, folder.path().join("missing.pem")] {
        let mut connection = ForgeConnection::new(RemoteKind::GitHub, REPO, SecretText::new("t"));
        connection.network.ca_file = Some(file);
        let error = connect(&connection, TestClock::default().source()).expect_err("unusable");
        assert!(error.to_string().contains(".pem"), "{error}");
    }
}

#[tokio::test]
async fn requests_go_through_the_proxy_and_the_proxy_sees_no_token() {
    let world = World::new(RemoteKind::GitHub);
    let tls = world.fake.listen_tls(&["forge.example"]);
    let proxy = FakeProxy::start();
    proxy.add_host("forge.example", tls.port);
    proxy.require_login("ada", "pass word");
    let mut connection = world.connection.clone();
    connection.api_url = Some("https://forge.example".to_owned());
    connection.network.ca_file = Some(tls.ca_file);
    connection.network.proxy = Some(SecretText::new(proxy.url()));
    let forge = connect(&connection, world.clock.source()).expect("a connection");
    let error = forge.pulls(&ItemQuery::open(), None).await.expect_err("no login");
    assert!(error.to_string().contains("needs a user"), "{error}");
    connection.network.proxy = Some(SecretText::new(proxy.url().replace("http://", "http://ada:pass%20word@")));
    let forge = connect(&connection, world.clock.source()).expect("a connection");
    forge.pulls(&ItemQuery::open(), None).await.expect("a list");
    let log = proxy.log().join("\n");
    assert!(log.contains("forge.example:443") && !log.contains("ghp_"), "{log}");
    connection.api_url = Some("https://unknown.example".to_owned());
    let forge = connect(&connection, world.clock.source()).expect("a connection");
    let error = forge.deliver(&world.pull("r1")).await.expect_err("the proxy refuses");
    assert_eq!(error.kind, DeliverErrorKind::Transient, "{error}");
}

#[tokio::test]
async fn enterprise_address_and_servers_below_a_path_work() {
    let world = World::with(RemoteKind::GitHub, |fake, connection| {
        connection.api_url = Some(fake.enterprise_url());
        connection.git_url = None;
    });
    world.deliver(&world.pull("r1")).await.expect("a pull request, pushed to the address that the API implies");
    assert_eq!(world.repo().pulls().len(), 1);
    for kind in [RemoteKind::GitHub, RemoteKind::GitLab, RemoteKind::Gitea] {
        let fake = FakeForge::start_below("/sub/path");
        fake.create_repo(REPO).add_writer("bot");
        let mut connection = ForgeConnection::new(kind, REPO, SecretText::new(fake.token("bot")));
        connection.api_url = Some(api_url(&fake, kind));
        let forge = connect(&connection, TestClock::default().source()).expect("a connection");
        assert_eq!(forge.pulls(&ItemQuery::open(), None).await.expect("a list").rows.len(), 0, "{kind:?}");
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    for status in [301, 302, 307, 308] {
        let world = World::new(RemoteKind::GitHub);
        world.fake.fail("GET", routes(RemoteKind::GitHub).pulls, 1, ForgeFault::Status(status));
        let error = world.forge.pulls(&ItemQuery::open(), None).await.expect_err("a redirect");
        assert!(matches!(&error, ForgeError::Refused(text) if text.contains("redirects")), "{error:?}");
        assert_eq!(world.fake.requests().len(), 1);
    }
}

#[test]
fn invalid_connections_are_errors_with_the_reason() {
    let good = || ForgeConnection::new(RemoteKind::GitHub, REPO, SecretText::new("t"));
    let table = [
        (ForgeConnection { repository: "app".to_owned(), ..good() }, "owner/name"),
        (ForgeConnection { repository: "acme/../app".to_owned(), ..good() }, "owner/name"),
        (ForgeConnection { repository: "acme/app?x".to_owned(), ..good() }, "owner/name"),
        (ForgeConnection { api_url: Some("http://forge.example".to_owned()), ..good() }, "https"),
        (ForgeConnection { api_url: Some("https://u:p@forge.example".to_owned()), ..good() }, "password"),
        (ForgeConnection { kind: RemoteKind::Gitea, ..good() }, "api_url"),
        (
            ForgeConnection { kind: RemoteKind::GitLab, api_url: Some("https://g.example".to_owned()), ..good() },
            "/api/v4",
        ),
        (ForgeConnection::new(RemoteKind::GitHub, REPO, SecretText::new(" \n")), "empty"),
    ];
    for (connection, expected) in table {
        let error = connect(&connection, TestClock::default().source()).expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(connect(&good(), TestClock::default().source()).is_ok());
}
