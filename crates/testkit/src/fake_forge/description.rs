//! The official descriptions of the forges' APIs (OpenAPI 3 of GitHub, Swagger 2 of Forgejo), to check both directions:
//! the requests that clients sent and the answers that the fake forge gave.

use super::log::{ForgeFace, ForgeLogEntry};
use super::schema::SchemaCheck;
use crate::clients::require_file;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// The path variables whose values may have slashes.
const LONG_VARIABLES: [&str; 5] = ["{ref}", "{path}", "{branch}", "{basehead}", "{filepath}"];

/// A description of one forge's API.
#[derive(Debug)]
pub struct ApiDescription {
    root: Value,
    face: ForgeFace,
}

/// The result of a check.
#[derive(Debug, Default)]
pub struct DescriptionReport {
    /// The operations that were checked, as `METHOD /template STATUS`.
    pub operations: BTreeSet<String>,
    /// The differences in requests, each in one line. They are the client's faults.
    pub requests: Vec<String>,
    /// The differences in answers, each in one line. They are the fake forge's faults.
    pub answers: Vec<String>,
}

impl DescriptionReport {
    /// All differences, each in one line.
    #[must_use]
    pub fn findings(&self) -> String {
        self.requests.iter().chain(&self.answers).map(|line| format!("{line}\n")).collect()
    }
}

impl ApiDescription {
    /// GitHub's, from npm's `@octokit/openapi`; records a skip and returns `None` if it is not installed.
    #[must_use]
    pub fn github() -> Option<Self> {
        let file = require_file("node_modules/@octokit/openapi/generated/api.github.com.json")?;
        Some(Self::read(&file, ForgeFace::GitHub))
    }

    /// Forgejo's, from the crate `forgejo-api`; records a skip and returns `None` if it is not installed.
    #[must_use]
    pub fn gitea() -> Option<Self> {
        Some(Self::read(&require_file("crates/forgejo-api/swagger.v1.json")?, ForgeFace::Gitea))
    }

    fn read(file: &Path, face: ForgeFace) -> Self {
        let bytes = std::fs::read(file).expect("the description can be read");
        Self { root: serde_json::from_slice(&bytes).expect("the description is JSON"), face }
    }

    /// Checks the requests to this API, and their answers where no fault was scripted.
    #[must_use]
    pub fn check(&self, log: &[ForgeLogEntry]) -> DescriptionReport {
        let mut report = DescriptionReport::default();
        for row in log.iter().filter(|row| row.face == self.face) {
            let name = format!("{} {}", row.method, row.path);
            let Some((template, operation)) = self.operation(&row.method, &row.path) else {
                // A request to an address that does not exist must fail.
                if row.status.is_some_and(|status| status < 400) {
                    report.requests.push(format!("{name}: the description has no such operation"));
                }
                continue;
            };
            report.operations.insert(format!("{} {template} {}", row.method, row.status.unwrap_or(0)));
            if row.status.is_none_or(|status| status < 400) {
                let found = self.check_request(operation, &template, row);
                report.requests.extend(found.into_iter().map(|text| format!("{name}: {text}")));
            }
            if row.fault.is_none() {
                let found = self.check_answer(operation, row);
                let status = row.status.unwrap_or(0);
                report.answers.extend(found.into_iter().map(|text| format!("{name}: answer {status}: {text}")));
            }
        }
        report
    }

    /// The operation of a path: the template with the most words that fits.
    fn operation(&self, method: &str, path: &str) -> Option<(String, &Value)> {
        let paths = self.root["paths"].as_object()?;
        let parts: Vec<&str> = path.split('/').collect();
        let fits = paths.iter().filter(|(template, _)| fits(&template.split('/').collect::<Vec<_>>(), &parts));
        let method = method.to_lowercase();
        let known = fits.filter_map(|(template, item)| Some((template.clone(), item.get(&method)?)));
        known.max_by_key(|(template, _)| template.split('/').filter(|part| !part.starts_with('{')).count())
    }

    fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str().and_then(|path| self.root.pointer(path.trim_start_matches('#'))) {
            Some(target) => self.resolve(target),
            None => value,
        }
    }

    fn schemas(&self) -> SchemaCheck<'_> {
        SchemaCheck::new(&self.root, self.face == ForgeFace::Gitea)
    }

    fn check_request(&self, operation: &Value, template: &str, row: &ForgeLogEntry) -> Vec<String> {
        let mut findings = Vec::new();
        let item = &self.root["paths"][template];
        let lists = [&operation["parameters"], &item["parameters"]];
        let parameters: Vec<&Value> =
            lists.into_iter().filter_map(Value::as_array).flatten().map(|one| self.resolve(one)).collect();
        for (name, value) in row.query.split('&').filter_map(|pair| pair.split_once('=')) {
            let known = parameters.iter().find(|one| one["in"] == "query" && one["name"] == name);
            match known {
                None => findings.push(format!("the query `{name}` is not described")),
                Some(known) => findings.extend(self.check_parameter(known, name, value)),
            }
        }
        let body = match parameters.iter().find(|one| one["in"] == "body") {
            Some(swagger) => &swagger["schema"],
            None => &self.resolve(&operation["requestBody"])["content"]["application/json"]["schema"],
        };
        match (body.is_null(), row.body.is_null()) {
            (true, false) => findings.push("no body is described".to_owned()),
            (false, false) => findings.extend(self.schemas().check(body, &row.body)),
            (_, true) => {
                let is_required = self.resolve(&operation["requestBody"])["required"] == true;
                findings.extend(is_required.then(|| "the body is missing".to_owned()));
            }
        }
        findings
    }

    /// A value of the query, read as its type.
    fn check_parameter(&self, parameter: &Value, name: &str, text: &str) -> Vec<String> {
        let schema = if parameter["schema"].is_null() { parameter } else { self.resolve(&parameter["schema"]) };
        let value = match schema["type"].as_str() {
            Some("integer" | "number" | "boolean") => {
                serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
            }
            Some("string") => Value::String(super::http::decode_query(text)),
            // Lists and alternatives have many spellings in a query.
            _ => return Vec::new(),
        };
        // A parameter of Swagger 2 has the words of a schema among its own.
        let mut schema = schema.clone();
        if let Some(fields) = schema.as_object_mut() {
            for word in ["in", "name", "description", "required", "format"] {
                fields.remove(word);
            }
        }
        let found = self.schemas().check(&schema, &value);
        found.into_iter().map(|text| format!("query `{name}`: {text}")).collect()
    }

    fn check_answer(&self, operation: &Value, row: &ForgeLogEntry) -> Vec<String> {
        let Some(status) = row.status else { return Vec::new() };
        let described = &operation["responses"][status.to_string()];
        if described.is_null() {
            let is_general = status >= 400 || status == 304;
            return if is_general { self.check_error(row) } else { vec!["the status is not described".to_owned()] };
        }
        let described = self.resolve(described);
        let schema = match &described["schema"] {
            Value::Null => &described["content"]["application/json"]["schema"],
            swagger => swagger,
        };
        match (schema.is_null(), row.answer.is_null()) {
            (true, true) => Vec::new(),
            (true, false) if status >= 400 => self.check_error(row),
            (true, false) => vec!["no body is described".to_owned()],
            (false, true) => vec!["the body is missing".to_owned()],
            (false, false) => self.schemas().check(schema, &without_status(row)),
        }
    }

    /// Errors that an operation does not describe have the general form.
    fn check_error(&self, row: &ForgeLogEntry) -> Vec<String> {
        let general = &self.root["components"]["schemas"]["basic-error"];
        if general.is_null() || row.answer.is_null() {
            let has_message = row.answer.is_null() || row.answer["message"].is_string();
            return if has_message { Vec::new() } else { vec!["an error has a message".to_owned()] };
        }
        let mut answer = without_status(row);
        // Many errors have rows that the general form does not describe.
        if let Some(fields) = answer.as_object_mut() {
            fields.remove("errors");
        }
        self.schemas().check(general, &answer)
    }
}

/// The answer without the status that GitHub repeats in every error and describes only in some.
fn without_status(row: &ForgeLogEntry) -> Value {
    let mut answer = row.answer.clone();
    if let Some(fields) = answer.as_object_mut().filter(|_| row.status.is_some_and(|status| status >= 400)) {
        fields.remove("status");
    }
    answer
}

/// Whether a path fits a template; some variables stand for several parts.
fn fits(template: &[&str], parts: &[&str]) -> bool {
    match (template, parts) {
        ([], []) => true,
        ([name, rest @ ..], [part, more @ ..]) if name.starts_with('{') && name.ends_with('}') => {
            let is_long = LONG_VARIABLES.contains(name);
            // Two variables in one part have a separator, as in `{base}...{head}`.
            let separator =
                name.split_once('}').and_then(|(_, rest)| rest.split_once('{')).map_or("", |(text, _)| text);
            !part.is_empty() && part.contains(separator) && (fits(rest, more) || (is_long && fits(template, more)))
        }
        ([word, rest @ ..], [part, more @ ..]) => word == part && fits(rest, more),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_fit_paths_with_slashes_in_some_variables() {
        let split = |text: &'static str| text.split('/').collect::<Vec<_>>();
        assert!(fits(&split("/repos/{owner}/{repo}/pulls"), &split("/repos/a/b/pulls")));
        assert!(!fits(&split("/repos/{owner}/{repo}/pulls"), &split("/repos/a/b/c/pulls")));
        assert!(fits(&split("/git/ref/{ref}"), &split("/git/ref/heads/a/b")));
        assert!(fits(&split("/commits/{ref}/status"), &split("/commits/a/b/status")));
        assert!(fits(&split("/compare/{base}...{head}"), &split("/compare/a...b")));
        assert!(!fits(&split("/pulls/{index}.{diffType}"), &split("/pulls/2")));
    }
}
