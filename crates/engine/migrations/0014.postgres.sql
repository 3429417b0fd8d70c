-- The server of the migration is no change of servers.
UPDATE server SET started_ms = CAST(EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000 AS BIGINT) WHERE id = 1;
