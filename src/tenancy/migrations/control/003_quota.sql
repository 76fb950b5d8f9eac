-- The maximum size of the project's database in bytes. NULL: the setting project-quota; 0: no quota, as in setquota(8).
ALTER TABLE cdp.projects ADD COLUMN quota_bytes bigint CHECK (quota_bytes >= 0);
