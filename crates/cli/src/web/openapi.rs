//! The description of the API, built from the table of routes, so that it cannot name a route that does not exist.

use super::routes::{ROUTES, RouteAction, WebRoute};
use hyper::Method;
use serde_json::{Map, Value, json};

/// The OpenAPI document.
pub(super) fn description() -> Value {
    let mut paths = Map::new();
    for route in ROUTES.iter().filter(|route| route.path.starts_with("/api/") || route.path == "/metrics") {
        let entry = paths.entry(route.path).or_insert_with(|| json!({}));
        entry[route.method.as_str().to_ascii_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Loopwright",
            "version": "1",
            "description": "Every answer is a document of docs/json.md; the summary names the command that prints it.",
        },
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "loopwright-…"},
            },
            "responses": {
                "Error": {
                    "description": "An error as `--json` prints it.",
                    "content": {"application/json": {"schema": {"type": "object", "required": ["schema", "error"]}}},
                },
            },
        },
    })
}

fn operation(route: &WebRoute) -> Value {
    let is_write = route.method == Method::POST;
    let mut parameters: Vec<Value> = path_parts(route.path).map(|name| parameter(name, "path", true, "")).collect();
    if is_write {
        let about = "a repeated key returns the first answer";
        parameters.push(parameter("Idempotency-Key", "header", false, about));
    } else {
        parameters.extend(route.values.iter().map(|(name, needed, about)| parameter(name, "query", *needed, about)));
    }
    if route.action == RouteAction::Events {
        parameters.push(parameter("Last-Event-ID", "header", false, "the number of the last event that was read"));
    }
    let mut operation = json!({
        "summary": route.about,
        "parameters": parameters,
        "x-role": route.role.map(|role| role.word()),
        "responses": responses(route),
    });
    if is_write && !route.values.is_empty() {
        operation["requestBody"] = body(route);
    }
    operation
}

fn path_parts(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn parameter(name: &str, place: &str, needed: bool, about: &str) -> Value {
    json!({"name": name, "in": place, "required": needed, "description": about, "schema": {"type": "string"}})
}

fn body(route: &WebRoute) -> Value {
    let needed: Vec<&str> = route.values.iter().filter(|(_, needed, _)| *needed).map(|(name, ..)| *name).collect();
    let value = |(name, _, about): &(&'static str, bool, &'static str)| {
        ((*name).to_owned(), json!({"type": "string", "description": about}))
    };
    let properties: Map<String, Value> = route.values.iter().map(value).collect();
    let schema = json!({"type": "object", "required": needed, "properties": properties});
    json!({"required": !needed.is_empty(), "content": {"application/json": {"schema": schema}}})
}

fn responses(route: &WebRoute) -> Value {
    let kind = match route.action {
        RouteAction::Events => "text/event-stream",
        RouteAction::Metrics => "text/plain",
        _ => "application/json",
    };
    let mut responses = json!({"200": {"description": "done", "content": {kind: {}}}});
    if route.method == Method::POST {
        responses["202"] = json!({"description": "accepted; the command continues"});
        responses["409"] = json!({"$ref": "#/components/responses/Error"});
    }
    for status in ["400", "401", "403", "404"] {
        responses[status] = json!({"$ref": "#/components/responses/Error"});
    }
    responses
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect_file;

    #[test]
    fn the_committed_description_is_the_one_that_the_server_sends() {
        // To write it again: UPDATE_EXPECT=1 cargo nextest run -p loopwright-cli description_is_the_one
        expect_file!["../../../../docs/openapi.json"].assert_eq(&format!("{:#}\n", description()));
    }
}
