-- Version 6 of the store, for both databases: the last valid text of every loop file, for the time while the file is
-- invalid.
CREATE TABLE loop_files (
    repo TEXT NOT NULL,
    file TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (repo, file)
);
