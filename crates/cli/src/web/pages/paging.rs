//! Pages of a list: the same links below every list that is longer than a page. The number of a page is a value of the
//! address, so a page can be kept and works without JavaScript; the command lists only the entries of the page.

use super::PageSource;
use super::parts::total;
use crate::web::markup::{Markup, element, encode, link, path_with};
use serde_json::Value;

/// A list with pages.
#[derive(Debug, Clone, Copy)]
pub(super) struct PagedList {
    /// The value of the address with the number of the page.
    pub(super) name: &'static str,
    /// The entries of a page.
    pub(super) size: usize,
    /// The part of the page that has the list.
    pub(super) place: &'static str,
}

impl PageSource<'_> {
    /// The number of a list's page, from 1.
    fn page_number(&self, list: PagedList) -> usize {
        self.value(list.name).parse::<usize>().unwrap_or(1).clamp(1, 1_000_000)
    }

    /// The options with which a command lists only the entries of the page.
    pub(super) fn window(&self, list: PagedList) -> [String; 2] {
        let offset = (self.page_number(list) - 1) * list.size;
        [format!("--limit={}", list.size), format!("--offset={offset}")]
    }

    /// The document of a command, with the entries of the page.
    pub(super) async fn page_of(&self, list: PagedList, words: &[&str]) -> Result<Value, super::PageError> {
        let [limit, offset] = self.window(list);
        let (verb, rest) = words.split_first().unwrap_or((&"", &[]));
        let words: Vec<&str> =
            [*verb, limit.as_str(), offset.as_str()].into_iter().chain(rest.iter().copied()).collect();
        self.document(&words).await
    }

    /// Links to the pages before and after, for a document with a page of the list; empty for a list of one page.
    pub(super) fn turn(&self, list: PagedList, document: &Value) -> Markup {
        self.turn_of(list, total(document))
    }

    /// The same for a list of this many entries.
    pub(super) fn turn_of(&self, list: PagedList, entries: usize) -> Markup {
        let (page, pages) = (self.page_number(list), entries.div_ceil(list.size).max(1));
        if pages == 1 && page == 1 {
            return Markup::default();
        }
        let to = |page: usize, shown: &'static str| link(&self.address(list, page), shown);
        let before = if page > 1 { to((page - 1).min(pages), "Previous") } else { Markup::default() };
        let after = if page < pages { to(page + 1, "Next") } else { Markup::default() };
        let here = element("span", &[], format!(" page {page} of {pages} "));
        let label = format!("Pages of the list: {}", list.place);
        element("nav", &[("class", "pages"), ("aria-label", &label)], before.and(here).and(after))
    }

    /// This page with another page of one list; its other values stay.
    fn address(&self, list: PagedList, page: usize) -> String {
        let name_of = |part: &str| part.strip_prefix('{').and_then(|name| name.strip_suffix('}')).map(str::to_owned);
        let parts: Vec<&str> = self.call.route.path.split('/').filter(|part| !part.is_empty()).collect();
        let own: Vec<String> = parts.iter().filter_map(|part| name_of(part)).collect();
        let filled: Vec<&str> =
            parts.iter().map(|part| name_of(part).map_or(*part, |name| self.value(&name))).collect();
        let kept = self
            .call
            .values
            .iter()
            .filter(|(name, value)| !own.contains(name) && name.as_str() != list.name && !value.is_empty());
        let kept: String = kept.map(|(name, value)| format!("&{}={}", encode(name), encode(value))).collect();
        format!("{}?{}={page}{kept}#{}", path_with(&filled), list.name, list.place)
    }
}
