"""A walk through the fake forge with PyGithub."""

import os

import github

at_once = {"retry": None, "seconds_between_requests": 0, "seconds_between_writes": 0}
token = github.Auth.Token(os.environ["TOKEN"])
client = github.Github(base_url=os.environ["API"], auth=token, per_page=3, **at_once)
repo = client.get_repo("acme/app")
assert client.get_user().login == "bot"

pull = repo.create_pull(title="Fix it", body="why", head="loop/a", base="main", draft=True)
assert pull.draft and pull.state == "open"
try:
    repo.create_pull(title="Again", head="loop/a", base="main")
    raise AssertionError("a second pull request of a branch is refused")
except github.GithubException as error:
    assert error.status == 422, error
assert [one.number for one in repo.get_pulls(state="open", head="acme:loop/a")] == [pull.number]
pull.create_issue_comment("a comment")
assert [one.body for one in pull.get_issue_comments()] == ["a comment"]
pull.add_to_labels("loop")
assert [one.name for one in pull.get_labels()] == ["loop"]
pull.create_review_request(reviewers=["ada"])
head = repo.get_commit(pull.head.sha)
pull.create_review(commit=head, body="seen", event="COMMENT", comments=[{"path": "a.txt", "line": 2, "body": "here"}])
assert [one.path for one in pull.get_review_comments()] == ["a.txt"]
assert [one.filename for one in pull.get_files()] == ["a.txt"]
head.create_status("pending", context="loop")
assert head.get_combined_status().state == "pending"
assert [one.conclusion for one in head.get_check_runs()] == ["failure"]

for number in range(8):
    repo.create_issue(title=f"issue {number}", labels=["bug"])
assert len(list(repo.get_issues(state="open", labels=["bug"]))) == 8
issue = repo.get_issue(pull.number + 1)
issue.create_comment("another")
issue.edit(state="closed")
assert repo.get_issue(issue.number).state == "closed"
assert repo.get_branch("main").commit.sha == pull.base.sha
assert client.get_rate_limit().resources.core.limit == 5000

pull.edit(title="Better", state="closed")
assert repo.get_pull(pull.number).title == "Better"
bad = github.Github(base_url=os.environ["API"], auth=github.Auth.Token("nonsense"), **at_once)
try:
    bad.get_repo("acme/app").name
    raise AssertionError("a bad token is refused")
except github.BadCredentialsException:
    pass
print("done")
