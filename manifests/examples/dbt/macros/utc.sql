{# The day and the month of a time in UTC in any time zone of the session. In SQLite times are texts. #}

{% macro utc_day(column) %}{{ return(adapter.dispatch('utc_day', 'gpuledger')(column)) }}{% endmacro %}

{% macro default__utc_day(column) %}cast({{ column }} at time zone 'UTC' as date){% endmacro %}

{% macro sqlite__utc_day(column) %}substr({{ column }}, 1, 10){% endmacro %}

{% macro utc_month(column) %}{{ return(adapter.dispatch('utc_month', 'gpuledger')(column)) }}{% endmacro %}

{% macro default__utc_month(column) %}cast(date_trunc('month', {{ column }} at time zone 'UTC') as date){% endmacro %}

{% macro sqlite__utc_month(column) %}substr({{ column }}, 1, 8) || '01'{% endmacro %}
