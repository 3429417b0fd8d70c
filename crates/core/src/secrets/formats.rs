//! The public formats of credentials: one row per format, as their issuers document them and as the maintained scanners
//! list them. `rules` interprets the matches.

/// The reliability of a pattern by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternTrust {
    /// Its prefix or shape is sufficient.
    Distinct,
    /// The value must also look random.
    Random,
}
use PatternTrust::{Distinct, Random};

/// One format.
pub(super) struct SecretFormat {
    /// The rule name in findings.
    pub(super) name: &'static str,
    /// Words, separated by spaces. Every text that matches contains one of them, in any case: the cheap first check.
    pub(super) words: &'static str,
    /// The first group, or the whole match, is the value.
    pub(super) pattern: &'static str,
    pub(super) trust: PatternTrust,
}

const fn row(name: &'static str, words: &'static str, pattern: &'static str, trust: PatternTrust) -> SecretFormat {
    SecretFormat { name, words, pattern, trust }
}

/// All formats; `\b` means a boundary of ASCII words.
pub(super) const ROWS: &[SecretFormat] = &[
    // Clouds and hosting.
    row("aws-access-key", "akia asia abia acca a3t", r"\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b", Distinct),
    row(
        "aws-secret-key",
        "aws",
        r#"(?i)aws.{0,20}(?:secret|sk).{0,20}?['"=:\s]+([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)"#,
        Random,
    ),
    row("aws-session-token", "session", r#"(?i)aws.?session.?token['"]?\s*[=:]\s*['"]?([A-Za-z0-9/+=]{100,})"#, Random),
    row("aws-bedrock-key", "absk", r"\bABSK[A-Za-z0-9+/]{100,300}", Distinct),
    row("aws-mws-key", "amzn.mws", r"\bamzn\.mws\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", Distinct),
    row("alibaba-access-key", "ltai", r"\bLTAI[A-Za-z0-9]{16,20}\b", Random),
    row("google-api-key", "aiza", r"\bAIza[0-9A-Za-z_-]{35}", Distinct),
    row("google-oauth-token", "ya29.", r"\bya29\.[0-9A-Za-z_-]{20,}", Distinct),
    row("google-oauth-secret", "gocspx-", r"\bGOCSPX-[A-Za-z0-9_-]{28}", Distinct),
    row(
        "azure-storage-key",
        "accountkey= sharedaccesskey=",
        r"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{43,86}==?)",
        Distinct,
    ),
    row(
        "azure-client-secret",
        "q~",
        r"(?:^|[^A-Za-z0-9_~.-])([A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34})(?:[^A-Za-z0-9_~.-]|$)",
        Random,
    ),
    row("azure-sas", "sig=", r"[?&]sig=([A-Za-z0-9%]{43,}%3D)", Random),
    row("cloudflare-origin-key", "v1.0-", r"\bv1\.0-[a-f0-9]{24}-[a-f0-9]{146}\b", Distinct),
    row("digitalocean-token", "_v1_", r"\bdo[opr]_v1_[a-f0-9]{64}\b", Distinct),
    row("fly-token", "fo1_ fm1a_ fm1r_ fm2_", r"\b(?:fo1_[\w-]{43}|fm(?:1[ar]|2)_[A-Za-z0-9+/]{100,})", Distinct),
    row("heroku-key", "hrku-", r"\bHRKU-[A-Za-z0-9_-]{36,64}", Distinct),
    row("scalingo-token", "tk-us-", r"\btk-us-[\w-]{48}\b", Distinct),
    row("supabase-token", "sbp_ sb_secret_", r"\b(?:sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,})\b", Distinct),
    row("tailscale-key", "tskey-", r"\btskey-[a-z]+-[A-Za-z0-9]{8,}-[A-Za-z0-9]{20,}", Distinct),
    row("netlify-token", "nfp_", r"\bnfp_[A-Za-z0-9]{36,}\b", Distinct),
    row("render-key", "rnd_", r"\brnd_[A-Za-z0-9]{32}\b", Random),
    row("openshift-token", "sha256~", r"\bsha256~[\w-]{43}\b", Distinct),
    row("pulumi-token", "pul-", r"\bpul-[a-f0-9]{40}\b", Distinct),
    row("terraform-token", "atlasv1", r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}", Distinct),
    row("vault-token", "hvs. hvb. hvr.", r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}", Distinct),
    row(
        "doppler-token",
        "dp.",
        r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}\b",
        Distinct,
    ),
    row("infracost-key", "ico-", r"\bico-[A-Za-z0-9]{32}\b", Random),
    // Forges, registries, delivery.
    row("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b", Distinct),
    row("github-fine-grained-token", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{22,255}\b", Distinct),
    row(
        "gitlab-token",
        "gl",
        r"\bgl(?:pat|dt|rt|cbt|ptt|ft|ffct|soat|agent|imt|oas|wt)-[A-Za-z0-9_.-]{20,300}",
        Distinct,
    ),
    row("gitlab-runner-token", "gr1348941", r"\bGR1348941[\w-]{20}", Distinct),
    row("bitbucket-token", "atbb atctt3", r"\b(?:ATBB[A-Za-z0-9]{32}|ATCTT3[A-Za-z0-9_=-]{60,})", Distinct),
    row("atlassian-token", "atatt3", r"\bATATT3[A-Za-z0-9_=-]{60,}", Distinct),
    row("npm-token", "npm_", r"\bnpm_[A-Za-z0-9]{36}\b", Distinct),
    row(
        "npm-auth",
        "_auth _password",
        r"(?im)(?:^\s*|:)_(?:authToken|auth|password)\s*=\s*([A-Za-z0-9+/=_-]{16,})",
        Random,
    ),
    row("pypi-token", "pypi-", r"\bpypi-[A-Za-z0-9_-]{50,}", Distinct),
    row("crates-io-token", "cio", r"\bcio[A-Za-z0-9]{32}\b", Random),
    row("rubygems-key", "rubygems_", r"\brubygems_[a-f0-9]{48}\b", Distinct),
    row("nuget-key", "oy2", r"\boy2[a-z0-9]{43}\b", Distinct),
    row("clojars-token", "clojars_", r"(?i)\bCLOJARS_[a-z0-9]{60}\b", Distinct),
    row("docker-token", "dckr_", r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}", Distinct),
    row("artifactory-token", "akcp cmvmd", r"\b(?:AKCp[A-Za-z0-9]{60,80}|cmVmd[A-Za-z0-9]{59})\b", Distinct),
    row("octopus-key", "api-", r"\bAPI-[A-Z0-9]{26,32}\b", Random),
    row("harness-key", "pat. sat.", r"\b(?:pat|sat)\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}\b", Distinct),
    row("buildkite-token", "bkua_", r"\bbkua_[a-f0-9]{40}\b", Distinct),
    row("circleci-token", "ccipat_", r"\bCCIPAT_[A-Za-z0-9]{22}_[a-f0-9]{40}\b", Distinct),
    row("sourcegraph-token", "sgp_", r"\bsgp_(?:[a-fA-F0-9]{16}_|local_)?[a-fA-F0-9]{40}\b", Distinct),
    row("sonar-token", "squ_ sqp_ sqa_", r"\bsq[upa]_[a-f0-9]{40}\b", Distinct),
    row("snyk-token", "snyk_", r"\bsnyk_(?:uat|sat)\.[a-z0-9]{8}\.[A-Za-z0-9._-]{20,}", Distinct),
    row("prefect-key", "pnu_ pnb_", r"\bpn[ub]_[A-Za-z0-9]{36}\b", Distinct),
    // Models.
    row("anthropic-key", "sk-ant-", r"\bsk-ant-[A-Za-z0-9_-]{20,}", Distinct),
    row("openai-key", "sk-", r"\bsk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}", Distinct),
    row("openai-legacy-key", "sk-", r"\bsk-[A-Za-z0-9]{32,64}\b", Random),
    row("openrouter-key", "sk-or-", r"\bsk-or-v1-[0-9a-f]{64}\b", Distinct),
    row("groq-key", "gsk_", r"\bgsk_[A-Za-z0-9]{52}\b", Distinct),
    row("huggingface-token", "hf_ api_org_", r"\b(?:hf|api_org)_[A-Za-z0-9]{34,}\b", Random),
    row("replicate-token", "r8_", r"\br8_[A-Za-z0-9]{37}\b", Distinct),
    row("perplexity-key", "pplx-", r"\bpplx-[A-Za-z0-9]{40,}\b", Distinct),
    row("xai-key", "xai-", r"\bxai-[A-Za-z0-9]{70,}\b", Distinct),
    row("fireworks-key", "fw_", r"\bfw_[A-Za-z0-9]{22,24}\b", Random),
    row("langsmith-key", "lsv2_", r"\blsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}\b", Distinct),
    row("pinecone-key", "pcsk_", r"\bpcsk_[A-Za-z0-9_]{40,}", Distinct),
    row("nvidia-key", "nvapi-", r"\bnvapi-[A-Za-z0-9_-]{60,}", Distinct),
    // Messaging.
    row("slack-token", "xox", r"\bxox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,250}", Random),
    row("slack-app-token", "xapp-", r"\bxapp-\d-[A-Z0-9]+-\d+-[a-z0-9]{16,}", Distinct),
    row(
        "slack-webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/]{40,})",
        Distinct,
    ),
    row(
        "teams-webhook",
        "webhook.office.com",
        r"[a-z0-9]+\.webhook\.office\.com/webhookb2/([a-z0-9@/-]{60,})",
        Distinct,
    ),
    row("discord-webhook", "api/webhooks", r"discord(?:app)?\.com/api/webhooks/\d+/([A-Za-z0-9_-]{40,})", Distinct),
    row("discord-bot-token", ".", r"\b[MNO][A-Za-z\d_-]{23,25}\.[A-Za-z\d_-]{6}\.[A-Za-z\d_-]{27,38}\b", Random),
    row("telegram-bot-token", ":aa", r"\b\d{8,10}:AA[A-Za-z0-9_-]{33}", Distinct),
    row("twilio-key", "sk", r"\bSK[0-9a-f]{32}\b", Random),
    row("sendgrid-key", "sg.", r"\bSG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}", Random),
    row("mailgun-key", "key- pubkey-", r"\b(?:pub)?key-[0-9a-f]{32}\b", Random),
    row("mailchimp-key", "-us", r"\b[0-9a-f]{32}-us\d{1,2}\b", Random),
    row("brevo-key", "xkeysib-", r"\bxkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}\b", Distinct),
    row("facebook-token", "eaa", r"\bEAA[A-Z][A-Za-z0-9]{100,}\b", Distinct),
    row("linear-key", "lin_api_ lin_oauth_", r"\blin_(?:api|oauth)_[A-Za-z0-9]{40,64}\b", Distinct),
    row("notion-token", "secret_ ntn_", r"\b(?:secret|ntn)_[A-Za-z0-9]{43,}\b", Random),
    row("airtable-token", "pat", r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}\b", Distinct),
    row("figma-token", "figd_", r"\bfigd_[A-Za-z0-9_-]{40,}", Distinct),
    row("frameio-token", "fio-u-", r"\bfio-u-[A-Za-z0-9_=-]{64}", Distinct),
    row("readme-key", "rdme_", r"\brdme_[a-z0-9]{70}\b", Distinct),
    // Payment.
    row("stripe-key", "sk_ rk_", r"\b[sr]k_(?:live|test|prod)_[A-Za-z0-9]{16,255}\b", Distinct),
    row("stripe-webhook-secret", "whsec_", r"\bwhsec_[A-Za-z0-9+/=]{24,}", Distinct),
    row("square-token", "sq0 eaaa", r"\b(?:sq0(?:atp|csp|idp)-[0-9A-Za-z_-]{22,}|EAAA[A-Za-z0-9_-]{60})", Distinct),
    row("shopify-token", "shp", r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b", Distinct),
    row("paypal-token", "access_token$production$", r"access_token\$production\$[0-9a-z]{16}\$[0-9a-f]{32}", Distinct),
    row(
        "plaid-token",
        "access-",
        r"\baccess-(?:sandbox|development|production)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
        Distinct,
    ),
    row("flutterwave-key", "flwseck", r"\bFLWSECK(?:_TEST)?-[A-Za-z0-9]{12,32}(?:-X)?\b", Distinct),
    row("razorpay-key", "rzp_", r"\brzp_live_[A-Za-z0-9]{14}\b", Distinct),
    row("duffel-token", "duffel_", r"\bduffel_(?:test|live)_[A-Za-z0-9_=-]{43}", Distinct),
    row("easypost-token", "ezak eztk", r"\bEZ[AT]K[A-Za-z0-9]{54}\b", Distinct),
    row("shippo-token", "shippo_", r"\bshippo_(?:live|test)_[a-fA-F0-9]{40}\b", Distinct),
    // Monitoring and data.
    row(
        "grafana-token",
        "glsa_ glc_ eyjrijoi",
        r"\b(?:glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_[A-Za-z0-9+/]{32,400}|eyJrIjoi[A-Za-z0-9]{70,400})",
        Distinct,
    ),
    row("sentry-token", "sntrys_ sntryu_", r"\bsntry[su]_[A-Za-z0-9+/=_-]{40,}", Distinct),
    row("new-relic-key", "nrak- nrjs- nrii-", r"\b(?:NRAK-[A-Z0-9]{27}|NRII-[A-Za-z0-9_-]{32})\b", Distinct),
    row("dynatrace-token", "dt0c01. dt0s", r"\bdt0[a-z]\d{2}\.[A-Za-z0-9]{8,24}\.[A-Za-z0-9]{64}\b", Distinct),
    row("posthog-key", "phx_", r"\bphx_[A-Za-z0-9]{43,}\b", Distinct),
    row("databricks-token", "dapi", r"\bdapi[0-9a-f]{32}(?:-\d)?\b", Distinct),
    row("planetscale-token", "pscale_", r"\bpscale_(?:tkn|oauth|pw)_[\w=.-]{32,64}", Distinct),
    row("postman-key", "pmak-", r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}\b", Distinct),
    row("maxmind-key", "_mmk", r"\b[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b", Distinct),
    row("launchdarkly-key", "api- sdk- mob-", r"\b(?:api|sdk)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", Random),
    // Plain keys.
    row("private-key", "private", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----", Distinct),
    row("putty-key", "putty-user-key-file", r"PuTTY-User-Key-File-\d: \S+", Distinct),
    row("age-secret-key", "age-secret-key-1", r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b", Distinct),
    row(
        "onepassword-key",
        "a3- ops_eyj",
        r"\b(?:A3-[A-Z0-9]{6}(?:-[A-Z0-9]{5,11}){3,5}|ops_eyJ[A-Za-z0-9+/]{100,})",
        Random,
    ),
    row("jwt", "eyj", r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}", Distinct),
    row(
        "database-url",
        "://",
        r#"\b(?:postgres(?:ql)?|mysql|mariadb|mongodb(?:\+srv)?|rediss?|amqps?|mssql|clickhouse)://[^\s:/@'"]*:([^\s@/'"]{6,})@"#,
        Random,
    ),
    row("basic-auth-url", "://", r#"\b(?:https?|ftp|ssh|git)://[^\s:/@'"]+:([^\s@/'"]{6,})@"#, Random),
    row(
        "authorization-header",
        "bearer basic token",
        r#"(?i)\bauthorization['"]?\s*[:=]\s*['"]?(?:bearer|basic|token)\s+([A-Za-z0-9._~+/=-]{20,})"#,
        Random,
    ),
    row("netrc-password", "machine", r"\bmachine\s+\S+\s+login\s+\S+\s+password\s+(\S{8,})", Random),
    row(
        "assigned-secret",
        "passw pwd secret token key credential",
        r#"(?i)(?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|client[_-]?secret|private[_-]?key|credentials?)['"]?\s*(?:=>|:=|=|:)\s*['"]([^'"\s]{12,128})['"]"#,
        Random,
    ),
    row(
        "environment-secret",
        "passw secret token key",
        r"(?m)^\s*(?:export\s+)?[A-Z][A-Z0-9_]*(?:PASSWORD|SECRET|TOKEN|API_KEY|ACCESS_KEY|PRIVATE_KEY)\s*=\s*([A-Za-z0-9+/=_.~-]{16,128})\s*$",
        Random,
    ),
];
