-- Uncounted and estimated energy, and busy time. Earlier rows have none.
alter table gpu_hours
  add column if not exists uncounted_mj bigint not null default 0,
  add column if not exists estimated_mj bigint not null default 0;
alter table charges, corrections, monthly_charges
  add column if not exists estimated_mj bigint not null default 0,
  add column if not exists busy_ms bigint not null default 0;
