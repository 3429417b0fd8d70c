//! stub
use loopwright_core::deliver::*;
use loopwright_core::outbox::StagedItem;
/// x
pub enum Prior {
    /// x
    Fresh,
    /// x
    MaybeSent,
}
/// x
pub enum Verdict {
    /// x
    Sent(Receipt),
    /// x
    InDoubt(String),
    /// x
    Refused(String),
    /// x
    Retry(String),
}
/// x
pub async fn deliver_one(_: &dyn Deliver, _: &crate::seam::Seam, _: &Delivery, _: Prior) -> Verdict {
    Verdict::Retry(String::new())
}
/// x
pub struct LocalForge;
impl LocalForge {
    /// x
    pub async fn open(
        _: &std::path::Path,
        _: crate::git::EngineRepo,
        _: std::sync::Arc<dyn crate::clock::Clock>,
    ) -> Result<Self, crate::git::GitError> {
        Ok(Self)
    }
}
impl Deliver for LocalForge {
    fn deliver<'a>(&'a self, _: &'a Delivery) -> loopwright_core::BoxFuture<'a, Result<Receipt, DeliverError>> {
        unimplemented!()
    }
    fn find<'a>(&'a self, _: &'a Delivery) -> loopwright_core::BoxFuture<'a, Result<Found, DeliverError>> {
        unimplemented!()
    }
}
/// x
pub fn default_item(kind: loopwright_core::spec::ActionKind, position: u32, intent: &str) -> StagedItem {
    StagedItem::new(position, format!("{kind}.md"), kind, intent)
}
