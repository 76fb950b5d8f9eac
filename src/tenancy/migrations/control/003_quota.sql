-- Bytes that the project's database may have. NULL: what the setting project-quota says; 0: no quota, as in setquota(8).
ALTER TABLE cdp.projects ADD COLUMN quota_bytes bigint CHECK (quota_bytes >= 0);
