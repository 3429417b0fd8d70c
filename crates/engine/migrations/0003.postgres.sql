-- Keys sort by bytes here too, so that pages have the same order in every locale.
ALTER TABLE schedules ALTER COLUMN repo TYPE TEXT COLLATE "C";
ALTER TABLE schedules ALTER COLUMN loop_name TYPE TEXT COLLATE "C";
ALTER TABLE receipts ALTER COLUMN occurrence TYPE TEXT COLLATE "C";
ALTER TABLE signals ALTER COLUMN "key" TYPE TEXT COLLATE "C";
ALTER TABLE memory ALTER COLUMN "key" TYPE TEXT COLLATE "C";
