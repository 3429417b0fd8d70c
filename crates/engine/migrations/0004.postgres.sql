ALTER TABLE inbox DROP CONSTRAINT inbox_round_fkey;
