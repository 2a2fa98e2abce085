-- The interval of each charge within its hour. Earlier rows have no interval. MySQL cannot add a column only if it is missing.
alter table charges, corrections
  add column if not exists began datetime(3) after busy_ms,
  add column if not exists ended datetime(3) after began;
