//! The public formats of credentials: one row per format, as their issuers document them and as the maintained scanners
//! list them. `rules` interprets the matches.

use regex::Regex;
use std::sync::{LazyLock, OnceLock};

/// The reliability of a pattern by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternTrust {
    /// Its prefix or shape is sufficient.
    Distinct,
    /// The value must also look random.
    Random,
}

/// One format.
pub(super) struct SecretFormat {
    /// The rule name in findings.
    pub(super) name: &'static str,
    pub(super) trust: PatternTrust,
    /// Words, separated by commas. Every text that matches contains one of them, in any case: the cheap first check.
    pub(super) words: &'static str,
    /// The first group, or the whole match, is the value.
    pattern: &'static str,
    regex: OnceLock<Regex>,
}

impl SecretFormat {
    fn read(row: &'static str) -> Option<Self> {
        let mut columns = row.splitn(4, ' ');
        let name = columns.next()?;
        let trust = if columns.next()? == "distinct" { PatternTrust::Distinct } else { PatternTrust::Random };
        Some(Self { name, trust, words: columns.next()?, pattern: columns.next()?, regex: OnceLock::new() })
    }

    /// Compiled when one of its words first occurs: most texts contain few, and compiling all patterns would slow down
    /// the start noticeably. Tokens are ASCII, and Unicode word boundaries would disable the fast matcher for every text
    /// with an accent.
    pub(super) fn regex(&self) -> &Regex {
        let pattern = || self.pattern.replace(r"\b", r"(?-u:\b)");
        self.regex.get_or_init(|| Regex::new(&pattern()).expect("the patterns are constants"))
    }
}

/// All formats.
pub(super) static ROWS: LazyLock<Vec<SecretFormat>> = LazyLock::new(|| {
    let rows = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|row| SecretFormat::read(row).expect("the table is a constant")).collect()
});

/// The name, whether the pattern is `distinct` or must look `random`, the words, and the pattern; `\b` means a boundary
/// of ASCII words.
const TABLE: &str = r##"
# Clouds and hosting.
aws-access-key distinct akia,asia,abia,acca,a3t \b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b
aws-secret-key random aws (?i)aws.{0,20}(?:secret|sk).{0,20}?['"=:\s]+([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)
aws-session-token random session (?i)aws.?session.?token['"]?\s*[=:]\s*['"]?([A-Za-z0-9/+=]{100,})
aws-bedrock-key distinct absk \bABSK[A-Za-z0-9+/]{100,300}
aws-mws-key distinct amzn.mws \bamzn\.mws\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b
alibaba-access-key random ltai \bLTAI[A-Za-z0-9]{16,20}\b
google-api-key distinct aiza \bAIza[0-9A-Za-z_-]{35}
google-oauth-token distinct ya29. \bya29\.[0-9A-Za-z_-]{20,}
google-oauth-secret distinct gocspx- \bGOCSPX-[A-Za-z0-9_-]{28}
azure-storage-key distinct accountkey=,sharedaccesskey= (?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{43,86}==?)
azure-client-secret random q~ (?:^|[^A-Za-z0-9_~.-])([A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34})(?:[^A-Za-z0-9_~.-]|$)
azure-sas random sig= [?&]sig=([A-Za-z0-9%]{43,}%3D)
cloudflare-origin-key distinct v1.0- \bv1\.0-[a-f0-9]{24}-[a-f0-9]{146}\b
digitalocean-token distinct _v1_ \bdo[opr]_v1_[a-f0-9]{64}\b
fly-token distinct fo1_,fm1a_,fm1r_,fm2_ \b(?:fo1_[\w-]{43}|fm(?:1[ar]|2)_[A-Za-z0-9+/]{100,})
heroku-key distinct hrku- \bHRKU-[A-Za-z0-9_-]{36,64}
scalingo-token distinct tk-us- \btk-us-[\w-]{48}\b
supabase-token distinct sbp_,sb_secret_ \b(?:sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,})\b
tailscale-key distinct tskey- \btskey-[a-z]+-[A-Za-z0-9]{8,}-[A-Za-z0-9]{20,}
netlify-token distinct nfp_ \bnfp_[A-Za-z0-9]{36,}\b
render-key random rnd_ \brnd_[A-Za-z0-9]{32}\b
openshift-token distinct sha256~ \bsha256~[\w-]{43}\b
pulumi-token distinct pul- \bpul-[a-f0-9]{40}\b
terraform-token distinct atlasv1 \b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}
vault-token distinct hvs.,hvb.,hvr. \bhv[sbr]\.[A-Za-z0-9_-]{24,}
doppler-token distinct dp. \bdp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}\b
infracost-key random ico- \bico-[A-Za-z0-9]{32}\b
# Forges, registries, delivery.
github-token distinct ghp_,gho_,ghu_,ghs_,ghr_ \bgh[pousr]_[A-Za-z0-9]{36,255}\b
github-fine-grained-token distinct github_pat_ \bgithub_pat_[A-Za-z0-9_]{22,255}\b
gitlab-token distinct gl \bgl(?:pat|dt|rt|cbt|ptt|ft|ffct|soat|agent|imt|oas|wt)-[A-Za-z0-9_.-]{20,300}
gitlab-runner-token distinct gr1348941 \bGR1348941[\w-]{20}
bitbucket-token distinct atbb,atctt3 \b(?:ATBB[A-Za-z0-9]{32}|ATCTT3[A-Za-z0-9_=-]{60,})
atlassian-token distinct atatt3 \bATATT3[A-Za-z0-9_=-]{60,}
npm-token distinct npm_ \bnpm_[A-Za-z0-9]{36}\b
npm-auth random _auth,_password (?im)(?:^\s*|:)_(?:authToken|auth|password)\s*=\s*([A-Za-z0-9+/=_-]{16,})
pypi-token distinct pypi- \bpypi-[A-Za-z0-9_-]{50,}
crates-io-token random cio \bcio[A-Za-z0-9]{32}\b
rubygems-key distinct rubygems_ \brubygems_[a-f0-9]{48}\b
nuget-key distinct oy2 \boy2[a-z0-9]{43}\b
clojars-token distinct clojars_ (?i)\bCLOJARS_[a-z0-9]{60}\b
docker-token distinct dckr_ \bdckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}
artifactory-token distinct akcp,cmvmd \b(?:AKCp[A-Za-z0-9]{60,80}|cmVmd[A-Za-z0-9]{59})\b
octopus-key random api- \bAPI-[A-Z0-9]{26,32}\b
harness-key distinct pat.,sat. \b(?:pat|sat)\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}\b
buildkite-token distinct bkua_ \bbkua_[a-f0-9]{40}\b
circleci-token distinct ccipat_ \bCCIPAT_[A-Za-z0-9]{22}_[a-f0-9]{40}\b
sourcegraph-token distinct sgp_ \bsgp_(?:[a-fA-F0-9]{16}_|local_)?[a-fA-F0-9]{40}\b
sonar-token distinct squ_,sqp_,sqa_ \bsq[upa]_[a-f0-9]{40}\b
snyk-token distinct snyk_ \bsnyk_(?:uat|sat)\.[a-z0-9]{8}\.[A-Za-z0-9._-]{20,}
prefect-key distinct pnu_,pnb_ \bpn[ub]_[A-Za-z0-9]{36}\b
# Models.
anthropic-key distinct sk-ant- \bsk-ant-[A-Za-z0-9_-]{20,}
openai-key distinct sk- \bsk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}
openai-legacy-key random sk- \bsk-[A-Za-z0-9]{32,64}\b
openrouter-key distinct sk-or- \bsk-or-v1-[0-9a-f]{64}\b
groq-key distinct gsk_ \bgsk_[A-Za-z0-9]{52}\b
huggingface-token random hf_,api_org_ \b(?:hf|api_org)_[A-Za-z0-9]{34,}\b
replicate-token distinct r8_ \br8_[A-Za-z0-9]{37}\b
perplexity-key distinct pplx- \bpplx-[A-Za-z0-9]{40,}\b
xai-key distinct xai- \bxai-[A-Za-z0-9]{70,}\b
fireworks-key random fw_ \bfw_[A-Za-z0-9]{22,24}\b
langsmith-key distinct lsv2_ \blsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}\b
pinecone-key distinct pcsk_ \bpcsk_[A-Za-z0-9_]{40,}
nvidia-key distinct nvapi- \bnvapi-[A-Za-z0-9_-]{60,}
# Messaging.
slack-token random xox \bxox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,250}
slack-app-token distinct xapp- \bxapp-\d-[A-Z0-9]+-\d+-[a-z0-9]{16,}
slack-webhook distinct hooks.slack.com hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/]{40,})
teams-webhook distinct webhook.office.com [a-z0-9]+\.webhook\.office\.com/webhookb2/([a-z0-9@/-]{60,})
discord-webhook distinct api/webhooks discord(?:app)?\.com/api/webhooks/\d+/([A-Za-z0-9_-]{40,})
discord-bot-token random . \b[MNO][A-Za-z\d_-]{23,25}\.[A-Za-z\d_-]{6}\.[A-Za-z\d_-]{27,38}\b
telegram-bot-token distinct :aa \b\d{8,10}:AA[A-Za-z0-9_-]{33}
twilio-key random sk \bSK[0-9a-f]{32}\b
sendgrid-key random sg. \bSG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}
mailgun-key random key-,pubkey- \b(?:pub)?key-[0-9a-f]{32}\b
mailchimp-key random -us \b[0-9a-f]{32}-us\d{1,2}\b
brevo-key distinct xkeysib- \bxkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}\b
facebook-token distinct eaa \bEAA[A-Z][A-Za-z0-9]{100,}\b
linear-key distinct lin_api_,lin_oauth_ \blin_(?:api|oauth)_[A-Za-z0-9]{40,64}\b
notion-token random secret_,ntn_ \b(?:secret|ntn)_[A-Za-z0-9]{43,}\b
airtable-token distinct pat \bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}\b
figma-token distinct figd_ \bfigd_[A-Za-z0-9_-]{40,}
frameio-token distinct fio-u- \bfio-u-[A-Za-z0-9_=-]{64}
readme-key distinct rdme_ \brdme_[a-z0-9]{70}\b
# Payment.
stripe-key distinct sk_,rk_ \b[sr]k_(?:live|test|prod)_[A-Za-z0-9]{16,255}\b
stripe-webhook-secret distinct whsec_ \bwhsec_[A-Za-z0-9+/=]{24,}
square-token distinct sq0,eaaa \b(?:sq0(?:atp|csp|idp)-[0-9A-Za-z_-]{22,}|EAAA[A-Za-z0-9_-]{60})
shopify-token distinct shp \bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b
paypal-token distinct access_token$production$ access_token\$production\$[0-9a-z]{16}\$[0-9a-f]{32}
plaid-token distinct access- \baccess-(?:sandbox|development|production)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b
flutterwave-key distinct flwseck \bFLWSECK(?:_TEST)?-[A-Za-z0-9]{12,32}(?:-X)?\b
razorpay-key distinct rzp_ \brzp_live_[A-Za-z0-9]{14}\b
duffel-token distinct duffel_ \bduffel_(?:test|live)_[A-Za-z0-9_=-]{43}
easypost-token distinct ezak,eztk \bEZ[AT]K[A-Za-z0-9]{54}\b
shippo-token distinct shippo_ \bshippo_(?:live|test)_[a-fA-F0-9]{40}\b
# Monitoring and data.
grafana-token distinct glsa_,glc_,eyjrijoi \b(?:glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_[A-Za-z0-9+/]{32,400}|eyJrIjoi[A-Za-z0-9]{70,400})
sentry-token distinct sntrys_,sntryu_ \bsntry[su]_[A-Za-z0-9+/=_-]{40,}
new-relic-key distinct nrak-,nrjs-,nrii- \b(?:NRAK-[A-Z0-9]{27}|NRII-[A-Za-z0-9_-]{32})\b
dynatrace-token distinct dt0c01.,dt0s \bdt0[a-z]\d{2}\.[A-Za-z0-9]{8,24}\.[A-Za-z0-9]{64}\b
posthog-key distinct phx_ \bphx_[A-Za-z0-9]{43,}\b
databricks-token distinct dapi \bdapi[0-9a-f]{32}(?:-\d)?\b
planetscale-token distinct pscale_ \bpscale_(?:tkn|oauth|pw)_[\w=.-]{32,64}
postman-key distinct pmak- \bPMAK-[0-9a-f]{24}-[0-9a-f]{34}\b
maxmind-key distinct _mmk \b[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk\b
launchdarkly-key random api-,sdk-,mob- \b(?:api|sdk)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b
# Plain keys.
private-key distinct private -----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----
putty-key distinct putty-user-key-file PuTTY-User-Key-File-\d: \S+
age-secret-key distinct age-secret-key-1 \bAGE-SECRET-KEY-1[0-9A-Z]{58}\b
onepassword-key random a3-,ops_eyj \b(?:A3-[A-Z0-9]{6}(?:-[A-Z0-9]{5,11}){3,5}|ops_eyJ[A-Za-z0-9+/]{100,})
jwt distinct eyj \beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}
database-url random :// \b(?:postgres(?:ql)?|mysql|mariadb|mongodb(?:\+srv)?|rediss?|amqps?|mssql|clickhouse)://[^\s:/@'"]*:([^\s@/'"]{6,})@
basic-auth-url random :// \b(?:https?|ftp|ssh|git)://[^\s:/@'"]+:([^\s@/'"]{6,})@
authorization-header random bearer,basic,token (?i)\bauthorization['"]?\s*[:=]\s*['"]?(?:bearer|basic|token)\s+([A-Za-z0-9._~+/=-]{20,})
netrc-password random machine \bmachine\s+\S+\s+login\s+\S+\s+password\s+(\S{8,})
assigned-secret random passw,pwd,secret,token,key,credential (?i)(?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|client[_-]?secret|private[_-]?key|credentials?)['"]?\s*(?:=>|:=|=|:)\s*['"]([^'"\s]{12,128})['"]
environment-secret random passw,secret,token,key (?m)^\s*(?:export\s+)?[A-Z][A-Z0-9_]*(?:PASSWORD|SECRET|TOKEN|API_KEY|ACCESS_KEY|PRIVATE_KEY)\s*=\s*([A-Za-z0-9+/=_.~-]{16,128})\s*$
"##;
