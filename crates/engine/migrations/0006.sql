-- Version 6 of the store, for both databases: the last good text of every loop file, for the time when the file is broken.
CREATE TABLE loop_files (
    repo TEXT NOT NULL,
    file TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (repo, file)
);
