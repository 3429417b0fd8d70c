//! GitHub's account, rate limit and apps.

use super::json::{extend, node_id};
use super::{GitHubCall, LIMIT, error, not_found};
use crate::fake_forge::access::{FakeApp, FakeToken, FakeTokenKind};
use crate::fake_forge::handle::unix_seconds;
use crate::fake_forge::http::{ApiAnswer, ApiResult};
use base64::Engine as _;
use serde_json::{Map, Value, json};

impl GitHubCall<'_> {
    pub(super) fn route_account(&mut self, words: &[&str]) -> ApiResult {
        match (self.api.method.as_str(), words) {
            ("GET", ["user"]) => self.user(),
            ("GET", ["users", login]) => self.public_user(login),
            ("GET", ["rate_limit"]) => Ok(self.rate_limit()),
            ("GET", ["meta"]) => Ok(ApiAnswer::ok(json!({"verifiable_password_authentication": false}))),
            ("GET", ["installation", "repositories"]) => self.installation_repos(),
            ("GET", ["user", "repos"]) => self.user_repos(),
            _ => Err(not_found()),
        }
    }

    fn profile(&self, login: &str) -> Value {
        let mut user = self.user_json(login);
        let time = "2026-01-01T00:00:00Z";
        extend(
            &mut user,
            json!({
                "name": login, "company": null, "blog": "", "location": null, "email": null, "hireable": null,
                "bio": null, "twitter_username": null, "public_repos": 1, "public_gists": 0, "followers": 0,
                "following": 0, "created_at": time, "updated_at": time,
            }),
        );
        user
    }

    fn user(&self) -> ApiResult {
        let token = self.api.token.as_ref().ok_or_else(|| error(401, "Requires authentication"))?;
        if token.kind == FakeTokenKind::Installation {
            return Err(error(403, "Resource not accessible by integration"));
        }
        let mut user = self.profile(&token.user);
        extend(
            &mut user,
            json!({
                "private_gists": 0, "total_private_repos": 0, "owned_private_repos": 0, "disk_usage": 0,
                "collaborators": 0, "two_factor_authentication": true,
            }),
        );
        Ok(ApiAnswer::ok(user))
    }

    fn public_user(&self, login: &str) -> ApiResult {
        if self.state.users.contains_key(login) { Ok(ApiAnswer::ok(self.profile(login))) } else { Err(not_found()) }
    }

    fn user_repos(&self) -> ApiResult {
        let login = self.api.login();
        let mine = self.state.repos.values().filter(|repo| repo.may_write(login));
        Ok(self.api.page(mine.map(|repo| self.repo_json(repo)).collect()))
    }

    fn installation_repos(&self) -> ApiResult {
        let token = self.api.token.as_ref().filter(|token| token.kind == FakeTokenKind::Installation);
        let token = token.ok_or_else(|| error(403, "You must authenticate with an installation access token"))?;
        let mine = self.state.repos.values().filter(|repo| token.covers(&repo.full_name()));
        Ok(self.api.page_in("repositories", mine.map(|repo| self.repo_json(repo)).collect()))
    }

    fn rate_limit(&self) -> ApiAnswer {
        let used: u64 = self.state.used.values().sum();
        let reset = unix_seconds() / 3600 * 3600 + 3600;
        let row = |limit: u64, used: u64| json!({"limit": limit, "used": used, "remaining": limit.saturating_sub(used), "reset": reset});
        let core = row(LIMIT, used);
        ApiAnswer::ok(json!({
            "resources": {"core": core, "search": row(30, 0), "graphql": row(LIMIT, 0)}, "rate": core,
        }))
    }

    /// Routes that a signed JWT opens: those below `/app`, and the installation of a repository.
    pub(super) fn app(&mut self, jwt: Option<&str>) -> ApiResult {
        let app = self.verify(jwt.ok_or_else(|| error(401, "A JSON web token could not be decoded"))?)?;
        let words: Vec<&str> = self.api.words.iter().map(String::as_str).collect();
        let installation = app.installation.to_string();
        match (self.api.method.as_str(), words.as_slice()) {
            ("GET", ["app"]) => Ok(ApiAnswer::ok(self.app_json(&app))),
            ("GET", ["app", "installations"]) => Ok(self.api.page(vec![self.installation_json(&app)])),
            ("GET", ["app", "installations", id]) if *id == installation => {
                Ok(ApiAnswer::ok(self.installation_json(&app)))
            }
            ("POST", ["app", "installations", id, "access_tokens"]) if *id == installation => {
                Ok(self.create_installation_token(&app))
            }
            ("GET", ["repos", owner, name, "installation"]) if *owner == app.owner => {
                self.state.repo(&format!("{owner}/{name}")).ok_or_else(not_found)?;
                Ok(ApiAnswer::ok(self.installation_json(&app)))
            }
            _ => Err(not_found()),
        }
    }

    /// Checks a JWT as GitHub does: the issuer, the times and the signature.
    fn verify(&self, jwt: &str) -> Result<FakeApp, ApiAnswer> {
        let undecodable = || error(401, "A JSON web token could not be decoded");
        let decode = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text).ok();
        let parts: Vec<&str> = jwt.split('.').collect();
        let [head, claims, signature] = parts.as_slice() else { return Err(undecodable()) };
        let parse = |text: &str| serde_json::from_slice::<Value>(&decode(text)?).ok();
        let (header, body) = (parse(head).ok_or_else(undecodable)?, parse(claims).ok_or_else(undecodable)?);
        let issuer = body["iss"].as_u64().or_else(|| body["iss"].as_str()?.parse().ok());
        let app = issuer.and_then(|id| self.state.apps.get(&id)).cloned();
        let app = app.ok_or_else(|| error(401, "Integration not found"))?;
        if header["alg"] != "RS256" {
            return Err(undecodable());
        }
        let signature = decode(signature).ok_or_else(undecodable)?;
        if !app.has_signed(format!("{head}.{claims}").as_bytes(), &signature) {
            return Err(undecodable());
        }
        let now = unix_seconds();
        let (issued, expires) = (body["iat"].as_u64().unwrap_or(u64::MAX), body["exp"].as_u64().unwrap_or(0));
        if expires <= now {
            return Err(error(
                401,
                "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires",
            ));
        }
        if expires > now + 600 {
            return Err(error(401, "'Expiration time' claim ('exp') is too far in the future"));
        }
        if issued > now + 5 {
            return Err(error(
                401,
                "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued",
            ));
        }
        Ok(app)
    }

    fn permissions_json(app: &FakeApp) -> Value {
        let pairs = app.permissions.iter().filter_map(|row| row.split_once(':'));
        Value::Object(pairs.map(|(name, level)| (name.to_owned(), json!(level))).collect::<Map<_, _>>())
    }

    fn app_json(&self, app: &FakeApp) -> Value {
        let time = "2026-01-01T00:00:00Z";
        json!({
            "id": app.id, "slug": app.slug, "node_id": node_id("A", app.id), "owner": self.user_json(&app.owner),
            "name": app.slug, "description": null, "external_url": self.api.web, "created_at": time,
            "html_url": format!("{}/apps/{}", self.api.web, app.slug), "updated_at": time, "events": [],
            "permissions": Self::permissions_json(app), "installations_count": 1,
        })
    }

    fn installation_json(&self, app: &FakeApp) -> Value {
        let (id, time) = (app.installation, "2026-01-01T00:00:00Z");
        json!({
            "id": id, "account": self.user_json(&app.owner), "repository_selection": "all", "app_id": app.id,
            "access_tokens_url": format!("{}/app/installations/{id}/access_tokens", self.api.base),
            "repositories_url": format!("{}/installation/repositories", self.api.base),
            "html_url": format!("{}/settings/installations/{id}", self.api.web), "app_slug": app.slug,
            "target_id": self.state.users.get(&app.owner), "target_type": "User", "events": [], "created_at": time,
            "permissions": Self::permissions_json(app), "updated_at": time, "single_file_name": null,
            "suspended_by": null, "suspended_at": null,
        })
    }

    /// A token of the installation, for the repositories and permissions that the request names.
    fn create_installation_token(&mut self, app: &FakeApp) -> ApiAnswer {
        let wanted = self.api.body["permissions"].as_object();
        let wanted = wanted.map(|rows| {
            rows.iter().map(|(name, level)| format!("{name}:{}", level.as_str().unwrap_or_default())).collect()
        });
        let scopes: Vec<String> = wanted.unwrap_or_else(|| app.permissions.clone());
        if let Some(more) = scopes.iter().find(|scope| !grants(&app.permissions, scope)) {
            return error(422, &format!("The permissions requested are not granted to this installation: {more}"));
        }
        let names = self.api.texts("repositories").unwrap_or_default();
        let repos: Vec<String> = names.iter().map(|name| format!("{}/{name}", app.owner)).collect();
        let user = format!("{}[bot]", app.slug);
        self.state.user_id(&user);
        let token = format!("ghs_fake{:036}", self.state.next_id());
        let listed = repos.iter().filter_map(|name| self.state.repo(name)).map(|repo| self.repo_json(repo));
        let listed: Vec<Value> = listed.collect();
        let grant = FakeToken { user, kind: FakeTokenKind::Installation, scopes, repos };
        self.state.tokens.insert(token.clone(), grant);
        let mut body = json!({
            "token": token, "expires_at": rfc3339(unix_seconds() + 3600), "permissions": Self::permissions_json(app),
            "repository_selection": if listed.is_empty() { "all" } else { "selected" },
        });
        if !listed.is_empty() {
            body["repositories"] = Value::Array(listed);
        }
        ApiAnswer::created(body)
    }
}

/// Whether these permissions include one; the right to write includes the right to read.
fn grants(permissions: &[String], wanted: &str) -> bool {
    let write = wanted.strip_suffix(":read").map(|name| format!("{name}:write"));
    permissions.iter().any(|one| one == wanted || Some(one) == write.as_ref())
}

/// Seconds since 1970 as GitHub writes times.
fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since the year 0 in the calendar that starts in March, so that the leap day is the last of its year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn times_are_written_as_dates() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_798_761_599), "2026-12-31T23:59:59Z");
    }
}
