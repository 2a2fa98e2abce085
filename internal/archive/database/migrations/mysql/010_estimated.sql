-- Uncounted and estimated energy, and busy time. Earlier rows have none. MySQL cannot add a column only if it is missing.
alter table gpu_hours
  add column if not exists uncounted_mj bigint not null after remapped_uncorrectable,
  add column if not exists estimated_mj bigint not null after uncounted_mj;
alter table charges, corrections, monthly_charges
  add column if not exists estimated_mj bigint not null after username,
  add column if not exists busy_ms bigint not null after estimated_mj;
