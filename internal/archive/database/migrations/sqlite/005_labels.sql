-- Labels of pods. Earlier rows have none.
alter table charges add column labels text not null default '';
alter table corrections add column labels text not null default '';
alter table monthly_charges add column labels text not null default '';
alter table pods add column labels text not null default '';
alter table days add column labels text not null default '';
