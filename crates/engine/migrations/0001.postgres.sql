-- PostgreSQL's own part: the journal is append-only, and round ids sort by bytes so that a prefix is a range of the
-- primary key in every locale.
CREATE FUNCTION events_keep() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'events are append-only'; END $$;
CREATE TRIGGER events_keep_row BEFORE UPDATE OR DELETE ON events
FOR EACH ROW EXECUTE FUNCTION events_keep();
CREATE TRIGGER events_keep_all BEFORE TRUNCATE ON events
FOR EACH STATEMENT EXECUTE FUNCTION events_keep();
ALTER TABLE outbox DROP CONSTRAINT outbox_round_fkey;
ALTER TABLE inbox DROP CONSTRAINT inbox_round_fkey;
ALTER TABLE rounds ALTER COLUMN id TYPE TEXT COLLATE "C";
ALTER TABLE outbox ALTER COLUMN round TYPE TEXT COLLATE "C";
ALTER TABLE inbox ALTER COLUMN round TYPE TEXT COLLATE "C";
ALTER TABLE outbox ADD CONSTRAINT outbox_round_fkey
FOREIGN KEY (round) REFERENCES rounds (id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE inbox ADD CONSTRAINT inbox_round_fkey
FOREIGN KEY (round) REFERENCES rounds (id) DEFERRABLE INITIALLY DEFERRED;
