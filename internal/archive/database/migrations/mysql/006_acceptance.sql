-- Silent nodes that are explained, and the reason of accepted gaps.

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'hours' and column_name = 'reason') > 0, 'do 0', '
alter table hours
  add column explained_nodes bigint not null after digest,
  add column reason varchar(256) not null after explained_nodes
');
prepare change_hours from @change;
execute change_hours;
deallocate prepare change_hours;

update hours set reason = 'filed by an earlier version' where state = 'gaps' and reason = '';
