//! Hello messages of a real client: complete, in pieces and damaged.

use super::*;
use proptest::prelude::*;
use std::sync::Arc;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore};

/// The first message of a real TLS client.
fn spoken(host: &str) -> Vec<u8> {
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = host.to_owned().try_into().expect("a server name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).expect("a greeting");
    bytes
}

/// The same message in records of at most `size` bytes.
fn in_records(bytes: &[u8], size: usize) -> Vec<u8> {
    let chunks = bytes[5..].chunks(size);
    chunks.flat_map(|chunk| [&[22, 3, 1], &(chunk.len() as u16).to_be_bytes()[..], chunk].concat()).collect()
}

#[test]
fn the_name_of_a_real_client_is_found() {
    assert_eq!(read(&spoken("docs.example.org")), Greeting::Hello(Some("docs.example.org".to_owned())));
    assert_eq!(read(&spoken("127.0.0.1")), Greeting::Hello(None));
}

#[test]
fn every_beginning_of_a_greeting_asks_for_more() {
    let bytes = spoken("docs.example.org");
    for end in 0..bytes.len() {
        assert_eq!(read(&bytes[..end]), Greeting::More, "{end}");
    }
    let mut longer = bytes.clone();
    longer.extend_from_slice(b"early data");
    assert_eq!(read(&longer), read(&bytes));
}

#[test]
fn a_greeting_in_many_records_is_put_together() {
    let bytes = spoken("docs.example.org");
    for size in [1, 2, 3, 7, 64, 100] {
        let parts = in_records(&bytes, size);
        assert_eq!(read(&parts), read(&bytes), "{size}");
        assert_eq!(read(&parts[..parts.len() - 1]), Greeting::More);
    }
}

#[test]
fn other_protocols_are_no_greeting() {
    for bytes in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"SSH-2.0-x\r\n",
        b"\x16\x02\x00\x00\x05hello",
        b"\x17\x03\x03\x00\x05hello",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",
    ] {
        assert_eq!(read(bytes), Greeting::Not, "{bytes:?}");
    }
    assert_eq!(read(&in_records(&[0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff], 4)), Greeting::Not);
    let endless = [&[22, 3, 1, 0x40, 0, 1, 0, 0x7f, 0xff][..], &vec![0; GREETING_MAX]].concat();
    assert_eq!(read(&endless), Greeting::Not);
}

/// A hello with these extensions, and the signature algorithms that every current client names.
fn hello(extensions: &[u8]) -> Vec<u8> {
    let extensions = [extensions, &[0, 13, 0, 4, 0, 2, 4, 3]].concat();
    let mut body = [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0x13, 1], &[1, 0]].concat();
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(&extensions);
    let message = [&[1, 0][..], &(body.len() as u16).to_be_bytes(), &body].concat();
    in_records(&[&[0; 5][..], &message].concat(), 1 << 14)
}

/// A server name extension with these entries.
fn names(entries: &[(u8, &str)]) -> Vec<u8> {
    let list: Vec<u8> = entries
        .iter()
        .flat_map(|(kind, name)| [&[*kind][..], &(name.len() as u16).to_be_bytes(), name.as_bytes()].concat())
        .collect();
    let data = [&(list.len() as u16).to_be_bytes()[..], &list].concat();
    [&[0, 0][..], &(data.len() as u16).to_be_bytes(), &data].concat()
}

#[test]
fn a_greeting_that_names_its_host_in_two_ways_is_invalid() {
    assert_eq!(read(&hello(&names(&[(0, "a.org")]))), Greeting::Hello(Some("a.org".to_owned())));
    assert_eq!(read(&hello(&[])), Greeting::Hello(None));
    assert_eq!(read(&hello(&[names(&[(0, "a.org")]), names(&[(0, "b.org")])].concat())), Greeting::Not);
    for entries in
        [&[(0, "a.org"), (0, "b.org")][..], &[(1, "a.org")], &[(0, "")], &[(0, "a\0b")], &[(0, "ä.org")], &[]]
    {
        assert_eq!(read(&hello(&names(entries))), Greeting::Not, "{entries:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = read(&bytes);
        let _ = read(&[&[22, 3, 1, 1, 0, 1, 0, 0][..], &bytes].concat());
    }
}

#[test]
fn a_damaged_greeting_names_no_host_by_accident() {
    let whole = spoken("docs.example.org");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        for to in 0..=u8::MAX {
            bytes[at] = to;
            if let Greeting::Hello(Some(name)) = read(&bytes) {
                assert!(is_near(&name, "docs.example.org"), "{name} by byte {at} as {to}");
            }
        }
    }
}

/// Whether a name is this host, this host with another letter, or its beginning. A smaller length makes rustls read the
/// rest of the name as an entry of an unknown kind.
fn is_near(name: &str, host: &str) -> bool {
    let changed = name.bytes().zip(host.bytes()).filter(|(one, other)| one != other).count();
    changed == 0 && name.len() <= host.len() || changed == 1 && name.len() == host.len()
}
