//! stub
use loopwright_core::round::SealFindings;
use loopwright_core::spec::LoopSpec;
/// x
pub async fn examine(
    _: &LoopSpec,
    _: &[String],
    _: &crate::git::EngineRepo,
    _: &crate::git::Oid,
    _: &crate::workspace::Sealed,
    _: &[loopwright_core::outbox::StagedItem],
) -> Result<SealFindings, crate::git::GitError> {
    Ok(SealFindings::default())
}
