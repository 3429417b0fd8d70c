//! Reads many text files of base at once. Files that are too large or no text are left out; they are never an error.

use super::GatesError;
use crate::git::{EngineRepo, GitErrorKind, Oid};
use loopwright_core::inventory::canary::CANARY_FILE_BYTES_MAX;
use std::collections::BTreeMap;

/// Files that one process reads.
const BATCH: usize = 50;
/// Most bytes of a batch.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// The texts of base's files, by path.
pub(super) type BaseTexts = BTreeMap<String, String>;

/// The texts of these files, at most `bytes_max` of them together.
pub(super) async fn read_texts(
    engine: &EngineRepo,
    base: &Oid,
    paths: &[&String],
    bytes_max: usize,
) -> Result<BaseTexts, GatesError> {
    let (mut texts, mut sum) = (BaseTexts::new(), 0);
    for batch in paths.chunks(BATCH) {
        for (path, bytes) in batch.iter().zip(read_batch(engine, base, batch).await?) {
            let text = bytes.filter(|bytes| bytes.len() <= CANARY_FILE_BYTES_MAX && sum + bytes.len() <= bytes_max);
            let Some(Ok(text)) = text.map(String::from_utf8) else { continue };
            sum += text.len();
            texts.insert((*path).clone(), text);
        }
    }
    Ok(texts)
}

/// A batch with a large file is read file by file.
async fn read_batch(engine: &EngineRepo, base: &Oid, batch: &[&String]) -> Result<Vec<Option<Vec<u8>>>, GatesError> {
    let names: Vec<(&Oid, &str)> = batch.iter().map(|path| (base, path.as_str())).collect();
    match engine.read_blobs(&names, BATCH_BYTES_MAX).await {
        Err(error) if matches!(error.kind, GitErrorKind::TooLarge) => {}
        read => return Ok(read?),
    }
    let mut found = Vec::with_capacity(batch.len());
    for path in batch {
        found.push(match engine.read_blob(base, path, CANARY_FILE_BYTES_MAX).await {
            Err(error) if matches!(error.kind, GitErrorKind::TooLarge) => None,
            read => read?,
        });
    }
    Ok(found)
}
