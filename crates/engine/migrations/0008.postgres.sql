-- Keys sort by bytes here too, so that rows have the same order in every locale.
ALTER TABLE works ALTER COLUMN id TYPE TEXT COLLATE "C";
ALTER TABLE level_log ALTER COLUMN id TYPE TEXT COLLATE "C";
ALTER TABLE calibrations ALTER COLUMN round TYPE TEXT COLLATE "C";
