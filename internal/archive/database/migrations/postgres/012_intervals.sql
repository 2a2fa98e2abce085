-- The interval of each charge in its hour. Earlier rows have none.
alter table charges, corrections
  add column if not exists began timestamptz,
  add column if not exists ended timestamptz;
