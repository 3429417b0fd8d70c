//! The next page of a listing, from the `Link` header. Only the query is used: the address stays the configured one,
//! whichever host a forge puts there.

use super::HttpAnswer;

/// The longest query of a page.
const QUERY_MAX: usize = 4096;

/// The query of the next page; `None` after the last.
pub(crate) fn next_query(answer: &HttpAnswer) -> Option<String> {
    let links = answer.headers.get_all("link").iter().filter_map(|value| value.to_str().ok());
    links.flat_map(|links| links.split(',')).find_map(next_of)
}

fn next_of(link: &str) -> Option<String> {
    let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
    let is_next = parameters.split(';').any(|part| matches!(part.trim(), "rel=\"next\"" | "rel=next"));
    let (_, query) = target.split_once('?')?;
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    (is_next && query.len() <= QUERY_MAX && query.bytes().all(is_plain)).then(|| query.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderMap, HeaderValue};

    fn next(link: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert("link", HeaderValue::from_str(link).expect("a value"));
        next_query(&HttpAnswer { status: 200, headers, body: Default::default() })
    }

    #[test]
    fn next_page_is_a_query_and_never_another_host() {
        let both =
            r#"<https://evil.example/x?page=1>; rel="prev", <https://evil.example/x?state=all&page=3>; rel="next""#;
        assert_eq!(next(both).as_deref(), Some("state=all&page=3"));
        assert_eq!(next(r#"<https://a.example/x?page=9>; rel="last""#), None);
        assert_eq!(next("nonsense"), None);
        assert_eq!(next(r#"<https://a.example/x>; rel="next""#), None);
    }
}
