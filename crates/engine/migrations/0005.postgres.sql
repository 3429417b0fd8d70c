-- Checkpoints are append-only.
CREATE FUNCTION checkpoints_keep() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'checkpoints are append-only'; END $$;
CREATE TRIGGER checkpoints_keep_row BEFORE UPDATE OR DELETE ON checkpoints
FOR EACH ROW EXECUTE FUNCTION checkpoints_keep();
CREATE TRIGGER checkpoints_keep_all BEFORE TRUNCATE ON checkpoints
FOR EACH STATEMENT EXECUTE FUNCTION checkpoints_keep();
