-- Pods that no series names. Earlier hours have none. MySQL has no "add column if not exists".

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'hours' and column_name = 'unknown_pods') > 0, 'do 0', '
alter table hours
  add column unknown_pods bigint not null after reason
');
prepare change_hours from @change;
execute change_hours;
deallocate prepare change_hours;
