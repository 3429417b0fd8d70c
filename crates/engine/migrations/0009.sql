-- Version 9 of the store, for both databases: questions about waiting candidates in places outside of this machine, and
-- people's answers from there.

-- One row for each place where a candidate's question is asked.
CREATE TABLE questions (
    id TEXT NOT NULL PRIMARY KEY,
    round TEXT NOT NULL,
    loop_name TEXT NOT NULL,
    repo TEXT NOT NULL,
    place TEXT NOT NULL,
    candidate TEXT NOT NULL,
    target TEXT,
    state TEXT NOT NULL,
    receipt TEXT,
    asked_ms BIGINT NOT NULL,
    tries BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL
);
CREATE INDEX questions_open ON questions (asked_ms, id) WHERE state <> 'closed';

-- One row for each answer: a press of a button, a comment. `reply` is the text of the reply to an answer that does not
-- count.
CREATE TABLE answers (
    id TEXT NOT NULL PRIMARY KEY,
    question TEXT NOT NULL,
    candidate TEXT NOT NULL,
    place TEXT NOT NULL,
    account TEXT NOT NULL,
    name TEXT NOT NULL,
    verb TEXT NOT NULL,
    why TEXT NOT NULL,
    problem TEXT,
    state TEXT NOT NULL,
    reply TEXT,
    tries BIGINT NOT NULL,
    at_ms BIGINT NOT NULL
);
CREATE INDEX answers_pending ON answers (at_ms, id) WHERE state IN ('received', 'refused', 'replying');
