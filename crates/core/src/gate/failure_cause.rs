//! Finds the lines of a failed command's output that state its cause. Package managers and build tools print a summary
//! or advice at the end, and the cause before it.

/// The most lines that are returned.
const LINES_MAX: usize = 5;

/// The lines that state why a command failed, the first error line first; the last lines if none looks like an error.
/// The lines after a single error line belong to it, such as the causes that cargo lists.
#[must_use]
pub fn failure_cause(output: &str) -> Vec<&str> {
    let lines: Vec<&str> = output.lines().map(bare).filter(|line| !line.is_empty()).collect();
    let mut errors: Vec<usize> = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_error(line)) {
        if errors.len() < LINES_MAX && !errors.iter().any(|known| lines[*known] == *line) {
            errors.push(at);
        }
    }
    let Some(first) = errors.first().copied() else {
        return lines[lines.len().saturating_sub(LINES_MAX)..].to_vec();
    };
    let following = (first + 1..lines.len()).filter(|at| !errors.contains(at));
    let mut shown: Vec<usize> = match errors.len() {
        1 => errors.iter().copied().chain(following).take(LINES_MAX).collect(),
        _ => errors,
    };
    shown.sort_unstable();
    shown.into_iter().map(|at| lines[at]).collect()
}

/// A line without the frame that pip draws around the output of another program.
fn bare(line: &str) -> &str {
    line.trim().trim_start_matches(['│', '╰', '─', '>', '×']).trim()
}

fn is_error(line: &str) -> bool {
    let lower = line.to_lowercase();
    let starts = ["error:", "error[", "error ", "[error]", "fatal:", "failure:", "npm error ", "npm err! "];
    let contains = [
        ": error:",
        ": fatal error:",
        ": error ",
        ": not found",
        "command not found",
        "no such file or directory",
        "no required module provides",
        ": *** ",
    ];
    let is_advice = ["note:", "hint:", "warning:", "npm warn"].iter().any(|start| lower.starts_with(start));
    let is_marked =
        starts.iter().any(|start| lower.starts_with(start)) || contains.iter().any(|part| lower.contains(part));
    !is_advice && (is_marked || is_exception(line) || is_go_error(line)) && !is_bare_code(&lower)
}

/// The last line of a Python traceback: `ModuleNotFoundError: No module named 'x'`.
fn is_exception(line: &str) -> bool {
    let name = line.split_once(": ").map_or("", |(name, _)| name);
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_'));
    is_name && (name.ends_with("Error") || name.ends_with("Exception"))
}

/// A line of the Go tool that is not progress.
fn is_go_error(line: &str) -> bool {
    let progress = ["downloading ", "finding ", "added ", "upgraded ", "creating ", "to add "];
    let is_own = line.strip_prefix("go: ").is_some_and(|rest| !progress.iter().any(|word| rest.starts_with(word)));
    is_own || line.split_once(".go:").is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// A line that only repeats a number: npm separates its paragraphs with `npm error 404`.
fn is_bare_code(lower: &str) -> bool {
    let rest = lower.trim_start_matches("npm ").trim_start_matches("error").trim_start_matches("err!").trim();
    rest.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(output: &str, expected: &Expect) {
        expected.assert_eq(&failure_cause(output).join("\n"));
    }

    #[test]
    fn cause_of_pip_is_the_exception_inside_and_not_the_advice_below() {
        check(
            "Processing /src/p\n  Preparing metadata (pyproject.toml): finished with status 'error'\n  error: \
             subprocess-exited-with-error\n  \n  × Preparing metadata (pyproject.toml) did not run successfully.\n  │ exit \
             code: 1\n  ╰─> [18 lines of output]\n      Traceback (most recent call last):\n        File \"<string>\", line \
             1, in <module>\n      ModuleNotFoundError: No module named 'lw_no_such_module'\n      [end of output]\n  \n  \
             note: This error originates from a subprocess, and is likely not a problem with pip.\nerror: \
             metadata-generation-failed\n\n× Encountered error while generating package metadata.\n╰─> See above for \
             output.\n\nnote: This is an issue with the package mentioned above, not pip.\nhint: See above for details.\n",
            &expect![[r#"
                error: subprocess-exited-with-error
                ModuleNotFoundError: No module named 'lw_no_such_module'
                error: metadata-generation-failed"#]],
        );
        check(
            "Looking in links: /wheels\nERROR: Could not find a version that satisfies the requirement x==1.0 (from \
             versions: none)\nERROR: No matching distribution found for x==1.0\n",
            &expect![[r#"
                ERROR: Could not find a version that satisfies the requirement x==1.0 (from versions: none)
                ERROR: No matching distribution found for x==1.0"#]],
        );
    }

    #[test]
    fn cause_of_npm_is_the_missing_package_and_not_the_place_of_its_log() {
        check(
            "npm warn Unknown user config \"nodedir\".\nnpm error code E404\nnpm error 404 Not Found - GET \
             http://127.0.0.1/x\nnpm error 404\nnpm error 404  The requested resource 'x@1.0.0' could not be \
             found\nnpm error 404\nnpm error 404 Note that you can also install from a\nnpm error 404 tarball, folder, \
             http url, or git url.\nnpm error A complete log of this run can be found in: /root/.npm/_logs/x.log\n",
            &expect![[r#"
                npm error code E404
                npm error 404 Not Found - GET http://127.0.0.1/x
                npm error 404  The requested resource 'x@1.0.0' could not be found
                npm error 404 Note that you can also install from a
                npm error 404 tarball, folder, http url, or git url."#]],
        );
    }

    #[test]
    fn cause_of_cargo_keeps_the_lines_that_belong_to_it() {
        check(
            "    Updating registry index\nerror: no matching package named `x` found\nlocation searched: registry \
             index\nrequired by package `c v0.1.0 (/workspace)`\n",
            &expect![[r#"
                error: no matching package named `x` found
                location searched: registry index
                required by package `c v0.1.0 (/workspace)`"#]],
        );
    }

    #[test]
    fn cause_of_make_is_the_line_before_its_own_summary() {
        check(
            "lw-no-such-tool --x\nmake: lw-no-such-tool: No such file or directory\nmake: *** [Makefile:2: all] Error 127\n",
            &expect![[r#"
                make: lw-no-such-tool: No such file or directory
                make: *** [Makefile:2: all] Error 127"#]],
        );
        check(
            "cc a.c\na.c:1:10: fatal error: nope.h: No such file or directory\n    1 | #include <nope.h>\n      |          \
             ^~~~~~~~\ncompilation terminated.\nmake: *** [Makefile:2: all] Error 1\n",
            &expect![[r#"
                a.c:1:10: fatal error: nope.h: No such file or directory
                make: *** [Makefile:2: all] Error 1"#]],
        );
    }

    #[test]
    fn cause_of_go_is_the_module_and_not_its_progress() {
        check(
            "go: downloading example.com/y v1.0.0\nmain.go:3:8: no required module provides package example.com/x; to add \
             it:\n\tgo get example.com/x\n",
            &expect![[r#"
                main.go:3:8: no required module provides package example.com/x; to add it:
                go get example.com/x"#]],
        );
    }

    #[test]
    fn output_without_an_error_line_gives_its_last_lines() {
        check(
            "1\n2\n3\n\n4\n5\n6\n",
            &expect![[r#"
            2
            3
            4
            5
            6"#]],
        );
        check("", &expect![[""]]);
    }
}
