"""A walk through the fake forge with python-gitlab."""

import os

import gitlab

client = gitlab.Gitlab(os.environ["WEB"], private_token=os.environ["TOKEN"], per_page=3)
client.auth()
assert client.user.username == "bot"
project = client.projects.get("acme/app")
ada = client.users.list(username="ada", get_all=True)[0]

request = project.mergerequests.create(
    {
        "source_branch": "loop/a",
        "target_branch": "main",
        "title": "Draft: Fix it",
        "description": "why",
        "labels": ["loop"],
        "reviewer_ids": [ada.id],
    }
)
assert request.draft and request.reviewers[0]["username"] == "ada"
try:
    project.mergerequests.create({"source_branch": "loop/a", "target_branch": "main", "title": "Again"})
    raise AssertionError("a second merge request of a branch is refused")
except gitlab.GitlabCreateError as error:
    assert error.response_code == 409, error
found = project.mergerequests.list(state="opened", source_branch="loop/a", get_all=True)
assert [one.iid for one in found] == [request.iid]
request.notes.create({"body": "a comment"})
request.discussions.create(
    {
        "body": "here",
        "position": {**request.diff_refs, "position_type": "text", "new_path": "a.txt", "old_path": "a.txt", "new_line": 2},
    }
)
assert sorted(one.body for one in request.notes.list(get_all=True)) == ["a comment", "here"]
assert len(request.discussions.list(get_all=True)) == 2
request.title = "Fix it"
request.labels = ["loop", "new"]
request.save()
assert not project.mergerequests.get(request.iid).draft

commit = project.commits.get(request.sha)
commit.statuses.create({"state": "success", "name": "loop"})
assert {one.name: one.status for one in commit.statuses.list(get_all=True)} == {"loop": "success", "build": "failed"}
pipeline = project.pipelines.list(ref="loop/a", get_all=True)[0]
assert [one.name for one in pipeline.jobs.list(scope="failed", get_all=True)] == ["build"]

for number in range(8):
    project.issues.create({"title": f"issue {number}", "labels": "bug"})
assert len(project.issues.list(state="opened", labels=["bug"], iterator=True)) == 8
assert len(list(project.issues.list(state="opened", labels=["bug"], iterator=True))) == 8
issue = project.issues.get(request.iid + 1)
issue.notes.create({"body": "another"})
issue.state_event = "close"
issue.save()
assert project.issues.get(issue.iid).state == "closed"
assert project.branches.get("loop/a").commit["id"] == request.sha
assert project.protectedbranches.list(get_all=True) == []

request.state_event = "close"
request.save()
assert project.mergerequests.get(request.iid).state == "closed"
try:
    gitlab.Gitlab(os.environ["WEB"], private_token="nonsense").auth()
    raise AssertionError("a bad token is refused")
except gitlab.GitlabAuthenticationError:
    pass
print("done")
