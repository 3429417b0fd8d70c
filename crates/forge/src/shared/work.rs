//! Looks for effects of any round about an item's work, without a change. Only a restored state asks.

use super::{SharedForge, comment_target, target};
use crate::api::{ApiError, ForgeApi};
use loopwright_core::deliver::{DeliverError, Delivery, FoundWork, WorkLookup};
use loopwright_core::forge::{CommentsOf, ForgePage, ItemQuery, PageToken};
use loopwright_core::outbox::marker_round;
use loopwright_core::spec::ActionKind;

/// The most pages of one listing.
const PAGES_MAX: usize = 50;

/// A text with its address.
type MarkedText = (String, String);

impl<A: ForgeApi> SharedForge<A> {
    pub(super) async fn look_for_work(&self, item: &Delivery) -> Result<WorkLookup, DeliverError> {
        let Some(mark) = item.work_mark() else { return Ok(WorkLookup::Unknown) };
        let texts = match item.item.kind {
            ActionKind::PullRequest => self.pull_texts(item).await,
            ActionKind::IssueCreate => self.issue_texts().await,
            ActionKind::IssueComment | ActionKind::PrComment => self.comment_texts(comment_target(item)?).await,
            ActionKind::PrInline | ActionKind::PrReview => self.comment_texts(CommentsOf::Pull(target(item)?)).await,
            // Labels and commits that are there already are not added again.
            ActionKind::IssueLabel | ActionKind::Commit => Ok(Some(Vec::new())),
            ActionKind::Report | ActionKind::Slack | ActionKind::Webhook => Ok(None),
        };
        let texts = match texts {
            Ok(texts) => texts,
            Err(error) => return Err(self.delivery_error(error).await),
        };
        Ok(texts.map_or(WorkLookup::Unknown, |texts| WorkLookup::Known(found(&texts, &mark))))
    }

    async fn pull_texts(&self, item: &Delivery) -> Result<Option<Vec<MarkedText>>, ApiError> {
        let query = ItemQuery { loop_name: Some(item.loop_name.clone()), ..ItemQuery::default() };
        let (mut texts, mut from) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let page = self.api.pulls(&query, from.as_ref()).await?;
            from = page.next;
            texts.extend(page.rows.into_iter().map(|pull| (pull.row.about.body, pull.url)));
            if from.is_none() {
                return Ok(Some(texts));
            }
        }
        Ok(None)
    }

    async fn issue_texts(&self) -> Result<Option<Vec<MarkedText>>, ApiError> {
        let (mut texts, mut from) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let page = self.api.newest_issues(from.as_ref()).await?;
            from = page.next;
            texts.extend(page.rows.into_iter().map(|issue| (issue.row.about.body, issue.url)));
            if from.is_none() {
                return Ok(Some(texts));
            }
        }
        Ok(None)
    }

    async fn comment_texts(&self, of: CommentsOf) -> Result<Option<Vec<MarkedText>>, ApiError> {
        let (mut texts, mut from): (Vec<MarkedText>, Option<PageToken>) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let ForgePage { rows, next } = self.api.comments(of, from.as_ref()).await?;
            texts.extend(rows.into_iter().map(|comment| (comment.row.body, comment.url)));
            from = next;
            if from.is_none() {
                return Ok(Some(texts));
            }
        }
        Ok(None)
    }
}

fn found(texts: &[MarkedText], mark: &str) -> Vec<FoundWork> {
    let marked = texts.iter().filter(|(text, _)| text.contains(mark));
    let of_round = |(text, place): &MarkedText| {
        marker_round(text).map(|round| FoundWork { round: round.to_owned(), place: place.clone() })
    };
    marked.filter_map(of_round).collect()
}
