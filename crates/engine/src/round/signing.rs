//! The commit that is sent: the sealed one, or its signed copy if the user's configuration names a key. The copy has
//! the tree that passed; only the header with the signature is new.

use super::context::RoundContext;
use crate::git::{CommitSigner, EngineRepo, Oid};
use loopwright_core::deliver::{DeliverError, Delivery};
use loopwright_core::spec::ActionKind;

/// The delivery with the signed copy in the place of its sealed commit.
///
/// # Errors
/// Blocked if a person has to fix the key, transient if git failed. Nothing was sent.
pub(super) async fn sign(cx: &RoundContext<'_>, delivery: &Delivery) -> Result<Delivery, DeliverError> {
    let mut signed = delivery.clone();
    let ships = matches!(delivery.item.kind, ActionKind::PullRequest | ActionKind::Commit);
    let sealed = delivery.commit.as_ref().filter(|_| ships).and_then(|commit| commit.parse::<Oid>().ok());
    let Some(sealed) = sealed else { return Ok(signed) };
    let known = cx.objects().known_copy(&cx.id, &sealed).await;
    let known = known.map_err(|error| DeliverError::transient(error.to_string()))?;
    let copy = match (known, &cx.engine.settings.signer) {
        (Some(copy), _) => copy,
        (None, None) => return Ok(signed),
        (None, Some(signer)) => {
            check_place(cx, signer).map_err(DeliverError::blocked)?;
            let copy = cx.objects().signed_copy(&cx.id, &sealed, signer).await;
            copy.map_err(|error| DeliverError::blocked(unsigned(signer, &error.to_string())))?
        }
    };
    signed.commit = Some(copy.to_string());
    Ok(signed)
}

/// The commit that was sent in the place of a sealed one.
pub(crate) async fn sent_commit(objects: &EngineRepo, round: &str, sealed: &str) -> String {
    let Ok(commit) = sealed.parse::<Oid>() else { return sealed.to_owned() };
    let copy = objects.known_copy(round, &commit).await.ok().flatten();
    copy.map_or_else(|| sealed.to_owned(), |copy| copy.to_string())
}

/// A key inside of the repository would be in the sandbox of every agent that works there.
fn check_place(cx: &RoundContext<'_>, signer: &CommitSigner) -> Result<(), String> {
    match signer {
        CommitSigner::Ssh { key, .. } if key.starts_with(&cx.repo.work_tree) => {
            Err(unsigned(signer, "the key is inside of the repository; move it to a folder of your own"))
        }
        CommitSigner::Ssh { .. } | CommitSigner::Gpg { .. } => Ok(()),
    }
}

fn unsigned(signer: &CommitSigner, why: &str) -> String {
    format!("the commit cannot be signed with the {}: {why}; `loopwright doctor` tests the key", signer.name())
}
