-- The interval of each charge within its hour. Earlier rows have no interval.
alter table charges, corrections
  add column if not exists began timestamptz,
  add column if not exists ended timestamptz;
