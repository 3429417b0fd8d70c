// A walk through the fake forge with GitHub's own client for JavaScript.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.CLIENTS + "/");
const { Octokit } = await import(pathToFileURL(require.resolve("@octokit/rest")).href);
const octokit = new Octokit({ auth: process.env.TOKEN, baseUrl: process.env.API });
const repo = { owner: "acme", repo: "app" };

const { data: found } = await octokit.rest.repos.get(repo);
assert.equal(found.default_branch, "main");
const { data: user } = await octokit.rest.users.getAuthenticated();
assert.equal(user.login, "bot");

const { data: pull } = await octokit.rest.pulls.create({
  ...repo, title: "Fix it", head: "loop/a", base: "main", body: "why", draft: true,
});
assert.equal(pull.draft, true);
const again = octokit.rest.pulls.create({ ...repo, title: "Again", head: "loop/a", base: "main" });
await assert.rejects(again, (error) => error.status === 422 && /already exists/.test(error.message));
const listed = await octokit.rest.pulls.list({ ...repo, head: "acme:loop/a", state: "open" });
assert.deepEqual(listed.data.map((one) => one.number), [pull.number]);
const { data: changed } = await octokit.rest.pulls.update({ ...repo, pull_number: pull.number, title: "Better" });
assert.equal(changed.title, "Better");
await octokit.rest.pulls.requestReviewers({ ...repo, pull_number: pull.number, reviewers: ["ada"] });
const { data: files } = await octokit.rest.pulls.listFiles({ ...repo, pull_number: pull.number });
assert.equal(files[0].filename, "a.txt");
const { data: commits } = await octokit.rest.pulls.listCommits({ ...repo, pull_number: pull.number });
assert.equal(commits.length, 1);
const { data: review } = await octokit.rest.pulls.createReview({
  ...repo, pull_number: pull.number, event: "COMMENT", body: "seen", commit_id: pull.head.sha,
  comments: [{ path: "a.txt", line: 2, side: "RIGHT", body: "here" }],
});
assert.equal(review.state, "COMMENTED");
const { data: inline } = await octokit.rest.pulls.listReviewComments({ ...repo, pull_number: pull.number });
assert.equal(inline[0].line, 2);
const { data: single } = await octokit.rest.pulls.createReviewComment({
  ...repo, pull_number: pull.number, commit_id: pull.head.sha, path: "a.txt", line: 1, side: "RIGHT", body: "alone",
});
await octokit.rest.pulls.createReplyForReviewComment({
  ...repo, pull_number: pull.number, comment_id: single.id, body: "an answer",
});
const { data: reviews } = await octokit.rest.pulls.listReviews({ ...repo, pull_number: pull.number });
assert.equal(reviews.length, 2);

const { data: issue } = await octokit.rest.issues.create({ ...repo, title: "It breaks", labels: ["bug"] });
await octokit.rest.issues.addLabels({ ...repo, issue_number: issue.number, labels: ["loop"] });
await octokit.rest.issues.removeLabel({ ...repo, issue_number: issue.number, name: "bug" });
const { data: comment } = await octokit.rest.issues.createComment({ ...repo, issue_number: issue.number, body: "one" });
await octokit.rest.issues.updateComment({ ...repo, comment_id: comment.id, body: "two" });
const { data: comments } = await octokit.rest.issues.listComments({ ...repo, issue_number: issue.number });
assert.deepEqual(comments.map((one) => one.body), ["two"]);
for (let number = 0; number < 7; number += 1) {
  await octokit.rest.issues.create({ ...repo, title: `issue ${number}` });
}
const all = await octokit.paginate(octokit.rest.issues.listForRepo, { ...repo, state: "all", per_page: 3 });
assert.equal(all.length, 9);
const { data: labelled } = await octokit.rest.issues.listForRepo({ ...repo, labels: "loop" });
assert.deepEqual(labelled.map((one) => one.number), [issue.number]);
await octokit.rest.issues.update({ ...repo, issue_number: issue.number, state: "closed" });

await octokit.rest.repos.createCommitStatus({
  ...repo, sha: pull.head.sha, state: "failure", context: "loop", description: "no",
});
const { data: status } = await octokit.rest.repos.getCombinedStatusForRef({ ...repo, ref: pull.head.sha });
assert.equal(status.state, "failure");
const { data: checks } = await octokit.rest.checks.listForRef({ ...repo, ref: "loop/a" });
assert.deepEqual(checks.check_runs.map((one) => one.conclusion), ["failure"]);
const { data: runs } = await octokit.rest.actions.listWorkflowRunsForRepo({ ...repo, status: "failure" });
assert.equal(runs.total_count, 1);
const { data: branch } = await octokit.rest.repos.getBranch({ ...repo, branch: "main" });
assert.equal(branch.protected, false);
const { data: reference } = await octokit.rest.git.getRef({ ...repo, ref: "heads/loop/a" });
assert.equal(reference.object.sha, pull.head.sha);
const { data: compared } = await octokit.rest.repos.compareCommitsWithBasehead({ ...repo, basehead: "main...loop/a" });
assert.equal(compared.ahead_by, 1);
const { data: limit } = await octokit.rest.rateLimit.get();
assert.equal(limit.resources.core.limit, 5000);

const cached = octokit.request("GET /repos/{owner}/{repo}/pulls/{pull_number}", {
  ...repo, pull_number: pull.number,
  headers: { "if-none-match": (await octokit.rest.pulls.get({ ...repo, pull_number: pull.number })).headers.etag },
});
await assert.rejects(cached, (error) => error.status === 304);
await octokit.rest.pulls.update({ ...repo, pull_number: pull.number, state: "closed" });
const { data: closed } = await octokit.rest.pulls.get({ ...repo, pull_number: pull.number });
assert.equal(closed.state, "closed");
await octokit.rest.git.deleteRef({ ...repo, ref: "heads/loop/a" });
console.log("done");
