//! A part of a long list, the same in every command and document that lists something: `--limit` and `--offset` choose
//! it, and `page` in the document has its place and the length of the whole list.

use serde::Serialize;

/// The largest page.
const LIMIT_MAX: i64 = 10_000;

/// The part of a list that is wanted.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct ListWindow {
    /// List at most N entries
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=LIMIT_MAX))]
    pub(crate) limit: Option<u32>,
    /// Leave out the first N entries of the list
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: u32,
}

/// The part of a list that a document has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ListPage {
    /// The entries before it.
    pub(crate) offset: u32,
    /// The entries of the whole list.
    pub(crate) total: u64,
}

impl ListWindow {
    /// The place of this part in a list of this length.
    pub(crate) fn page(self, total: usize) -> ListPage {
        ListPage { offset: self.offset, total: total as u64 }
    }

    /// Whether it is not the whole list.
    pub(crate) fn is_part(self) -> bool {
        self.limit.is_some() || self.offset > 0
    }

    /// Keeps only the wanted entries.
    pub(crate) fn cut<T>(self, list: &mut Vec<T>) -> ListPage {
        let page = self.page(list.len());
        list.drain(..list.len().min(self.offset as usize));
        list.truncate(self.end(list.len()));
        page
    }

    /// As `cut`, of a list that does not exist yet: the wanted places of this many.
    pub(crate) fn places(self, total: usize) -> std::ops::Range<usize> {
        let start = total.min(self.offset as usize);
        start..start + self.end(total - start)
    }

    fn end(self, left: usize) -> usize {
        self.limit.map_or(left, |limit| left.min(limit as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_cuts_its_part_and_counts_the_whole_list() {
        let cut = |limit: Option<u32>, offset: u32| {
            let mut list = vec![1, 2, 3, 4, 5];
            let window = ListWindow { limit, offset };
            let page = window.cut(&mut list);
            assert_eq!(window.places(5).len(), list.len());
            assert_eq!(page, ListPage { offset, total: 5 });
            list
        };
        assert_eq!(cut(None, 0), [1, 2, 3, 4, 5]);
        assert_eq!(cut(Some(2), 2), [3, 4]);
        assert_eq!(cut(Some(2), 4), [5]);
        assert_eq!(cut(Some(2), 9), [0; 0]);
    }
}
