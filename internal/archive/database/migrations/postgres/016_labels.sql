-- Labels of pods. Earlier rows have none.
alter table charges add column if not exists labels text not null default '';
alter table corrections add column if not exists labels text not null default '';
alter table monthly_charges add column if not exists labels text not null default '';
alter table pods add column if not exists labels text not null default '';
alter table days add column if not exists labels text not null default '';
