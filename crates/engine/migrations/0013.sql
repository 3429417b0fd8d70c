-- Version 13 of the store, for both databases: the day of a loop is a day of the loop's zone.

-- A process of an earlier version that still has the store open would settle only `spend`. It is fenced: the next write of
-- each of its rounds, and of a daemon, is refused. Those rounds are resumed, and settled in both tables.
UPDATE leases SET fence = fence + 1, instance = '' WHERE instance <> '';

-- The spend of each loop by its own days. `spend` has the same amounts by the days of the user's zone, for the ceilings
-- that loops share. Until this version the days of both were days of UTC.
CREATE TABLE loop_spend (
    day TEXT NOT NULL,
    repo TEXT NOT NULL,
    loop_name TEXT NOT NULL,
    reserved_micros BIGINT NOT NULL,
    settled_micros BIGINT NOT NULL,
    reserved_tokens BIGINT NOT NULL,
    settled_tokens BIGINT NOT NULL,
    PRIMARY KEY (day, repo, loop_name)
);
INSERT INTO loop_spend (day, repo, loop_name, reserved_micros, settled_micros, reserved_tokens, settled_tokens)
SELECT day, repo, loop_name, reserved_micros, settled_micros, reserved_tokens, settled_tokens FROM spend;
