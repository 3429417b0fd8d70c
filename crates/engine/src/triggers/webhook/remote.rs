//! Normalised addresses of repositories, so that a delivery's repository can be compared with a clone's remotes.

/// `host/owner/name` in lower case; `None` for a path on this machine.
pub(super) fn normalise_address(address: &str) -> Option<String> {
    let address = address.trim();
    let (host, path) = match address.split_once("://") {
        Some((scheme, rest)) => {
            let is_remote = ["http", "https", "ssh", "git", "git+ssh"].contains(&scheme.to_ascii_lowercase().as_str());
            is_remote.then_some(())?;
            rest.split_once('/')?
        }
        // `git@host:owner/name`: the part before the first colon is not a path.
        None => address.split_once(':').filter(|(host, _)| !host.contains('/'))?,
    };
    let host = host.rsplit('@').next().unwrap_or(host).split(':').next().unwrap_or(host);
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    let is_whole = !host.is_empty() && !path.is_empty();
    is_whole.then(|| format!("{host}/{path}").to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_repository_has_one_address_however_it_is_spelt() {
        let spellings = [
            "https://github.com/Acme/Shop",
            "https://github.com/acme/shop.git",
            "https://token@github.com/acme/shop/",
            "git@github.com:acme/shop.git",
            "ssh://git@github.com:22/acme/shop.git",
        ];
        for spelling in spellings {
            assert_eq!(normalise_address(spelling).as_deref(), Some("github.com/acme/shop"), "{spelling}");
        }
        for none in ["/srv/git/shop.git", "../shop", "file:///srv/shop", "C:/shop/x:y", "", "https://github.com"] {
            assert_ne!(normalise_address(none).as_deref(), Some("github.com/acme/shop"), "{none}");
        }
        assert_ne!(normalise_address("https://github.com.evil.org/acme/shop").as_deref(), Some("github.com/acme/shop"));
    }
}
