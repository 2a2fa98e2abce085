-- Labels of pods. Earlier rows have none.

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'charges' and column_name = 'labels') > 0, 'do 0', '
alter table charges add column labels varchar(1024) not null after cluster_queue
');
prepare change_charges from @change;
execute change_charges;
deallocate prepare change_charges;

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'corrections' and column_name = 'labels') > 0, 'do 0', '
alter table corrections add column labels varchar(1024) not null after cluster_queue
');
prepare change_corrections from @change;
execute change_corrections;
deallocate prepare change_corrections;

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'monthly_charges' and column_name = 'labels') > 0, 'do 0', '
alter table monthly_charges add column labels varchar(1024) not null after cluster_queue
');
prepare change_monthly_charges from @change;
execute change_monthly_charges;
deallocate prepare change_monthly_charges;

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'pods' and column_name = 'labels') > 0, 'do 0', '
alter table pods add column labels varchar(1024) not null after cluster_queue
');
prepare change_pods from @change;
execute change_pods;
deallocate prepare change_pods;

set @change = if((select count(*) from information_schema.columns where table_schema = database() and table_name = 'days' and column_name = 'labels') > 0, 'do 0', '
alter table days add column labels varchar(1024) not null after cluster_queue
');
prepare change_days from @change;
execute change_days;
deallocate prepare change_days;
