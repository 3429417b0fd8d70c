// A walk through the fake forge with a client that was generated from Gitea's description.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const { giteaApi } = createRequire(process.env.CLIENTS + "/")("gitea-js");
const api = giteaApi(process.env.WEB, { token: process.env.TOKEN });
const [owner, repo] = ["acme", "app"];

assert.equal((await api.user.userGetCurrent()).data.login, "bot");
assert.equal((await api.repos.repoGet(owner, repo)).data.default_branch, "main");
const { data: label } = await api.repos.issueCreateLabel(owner, repo, { name: "loop", color: "#00aabb" });
const { data: pull } = await api.repos.repoCreatePullRequest(owner, repo, {
  title: "WIP: Fix it", head: "loop/a", base: "main", body: "why", labels: [label.id],
});
assert.equal(pull.labels[0].name, "loop");
const again = api.repos.repoCreatePullRequest(owner, repo, { title: "Again", head: "loop/a", base: "main" });
await assert.rejects(again, (answer) => answer.status === 409);
const { data: listed } = await api.repos.repoListPullRequests(owner, repo, { state: "open" });
assert.deepEqual(listed.map((one) => one.number), [pull.number]);
await api.repos.repoCreatePullReviewRequests(owner, repo, pull.number, { reviewers: ["ada"] });
const { data: review } = await api.repos.repoCreatePullReview(owner, repo, pull.number, {
  event: "COMMENT", body: "seen", commit_id: pull.head.sha, comments: [{ path: "a.txt", body: "here", new_position: 2 }],
});
const { data: inline } = await api.repos.repoGetPullReviewComments(owner, repo, pull.number, review.id);
assert.equal(inline[0].path, "a.txt");
await api.repos.issueCreateComment(owner, repo, pull.number, { body: "a comment" });
const { data: comments } = await api.repos.issueGetComments(owner, repo, pull.number);
assert.deepEqual(comments.map((one) => one.body), ["a comment"]);
await api.repos.repoCreateStatus(owner, repo, pull.head.sha, { state: "success", context: "loop" });
const { data: status } = await api.repos.repoGetCombinedStatusByRef(owner, repo, "loop/a");
assert.equal(status.state, "failure");

const { data: issue } = await api.repos.issueCreateIssue(owner, repo, { title: "It breaks", labels: [label.id] });
await api.repos.issueAddLabel(owner, repo, issue.number, { labels: [label.id] });
const { data: issues } = await api.repos.issueListIssues(owner, repo, { type: "issues", labels: "loop" });
assert.deepEqual(issues.map((one) => one.number), [issue.number]);
await api.repos.issueEditIssue(owner, repo, issue.number, { state: "closed" });
const { data: branch } = await api.repos.repoGetBranch(owner, repo, "main");
assert.equal(branch.commit.id, pull.base.sha);
const { data: closed } = await api.repos.repoEditPullRequest(owner, repo, pull.number, { title: "Fix it", state: "closed" });
assert.equal(`${closed.state} ${closed.draft}`, "closed false");
console.log("done");
