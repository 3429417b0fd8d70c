//! `mcp`: the server of the Model Context Protocol for one client, on standard input and output. Without a token the
//! server acts for the user who started it, and may not answer questions.

use super::{CommandContext, CommandError, VerbResult};
use crate::mcp;
use crate::web::access::{AccessRegistry, AccessRole};

#[derive(Debug, clap::Args)]
pub(crate) struct McpArgs {
    /// The rights of the client; `approve` needs a token in LOOPWRIGHT_TOKEN [default: the role of the token, else view]
    #[arg(long, value_enum)]
    role: Option<AccessRole>,
}

pub(crate) async fn run(args: McpArgs, cx: &CommandContext) -> VerbResult {
    let Some(secret) = &cx.env.token else {
        let role = args.role.unwrap_or(AccessRole::View);
        if role == AccessRole::Approve {
            return Err(CommandError::refused(
                "the role `approve` needs a token, so that the record names the program that answered",
            )
            .hint("loopwright token add NAME --role approve; then set LOOPWRIGHT_TOKEN for this command"));
        }
        return mcp::serve(cx, role).await;
    };
    let entry = AccessRegistry::new(&cx.state_dir()?.0).find(secret).ok_or_else(|| {
        CommandError::refused("the token in LOOPWRIGHT_TOKEN is unknown, expired or revoked")
            .hint("see `loopwright token list`")
    })?;
    let role = args.role.unwrap_or(entry.role);
    if role > entry.role {
        let text = format!("the token `{}` has the role `{}`", entry.name, entry.role.word());
        return Err(CommandError::refused(text).hint(format!("use --role {}", entry.role.word())));
    }
    mcp::serve(&cx.duplicate().for_token(entry.actor(), secret), role).await
}
