// What a dashboard's panels and variables ask of Prometheus, as Grafana would ask it.

// grafana gives the values of Grafana's own variables for a time range, a step and its minimum in seconds.
function grafana(range, step, least) {
  return { __range: `${range}s`, __range_s: `${range}`, __interval: `${step}s`, __rate_interval: `${Math.max(4 * least, step + least)}s` };
}

const seconds = { '1m': 60, '1h': 3600 };

// fill puts values in the place of $name and ${name}.
export function fill(text, values) {
  return text.replace(/\$\{?(\w+)\}?/g, (all, name) => values[name] ?? all);
}

export class Prometheus {
  constructor(address) {
    this.address = address;
  }

  async get(path, parameters) {
    const response = await fetch(`${this.address}/api/v1/${path}?${new URLSearchParams(parameters)}`);
    const answer = await response.json();
    if (answer.status !== 'success') throw new Error(`${answer.error}: ${JSON.stringify(parameters)}`);
    return answer.data;
  }

  // choices returns what can be chosen for a variable that has a query.
  async choices(variable, values) {
    const query = fill(variable.query.query, values);
    const [, series, label] = query.match(/^label_values\((.*), (\w+)\)$/s) ?? [];
    if (label) return this.get(`label/${label}/values`, { 'match[]': series });
    const [, expr] = query.match(/^query_result\((.*)\)$/s);
    const pattern = new RegExp(variable.regex.slice(1, -1));
    const { result } = await this.get('query', { query: expr });
    return result.map(({ metric }) => {
      const labels = Object.entries(metric).map(([k, v]) => `${k}="${v}"`);
      return pattern.exec(`{${labels}}`)[1];
    });
  }

  // variables returns a value for each variable of a dashboard: the given one, or All,
  // or the first that can be chosen.
  async variables(dashboard, given) {
    const values = {};
    for (const v of dashboard.templating.list) {
      if (given[v.name] !== undefined) values[v.name] = given[v.name];
      else if (v.type === 'textbox') values[v.name] = v.query;
      else if (v.includeAll) values[v.name] = v.allValue;
      else if (v.type === 'query') values[v.name] = (await this.choices(v, values)).sort()[0];
    }
    return values;
  }

  // panel returns the answers to a panel's queries.
  async panel(panel, values, range, end) {
    return Promise.all(panel.targets.map(async (target) => {
      const least = seconds[target.interval] ?? seconds[panel.interval] ?? 15;
      const step = Math.max(least, Math.ceil(range / 1000));
      const query = fill(target.expr, { ...values, ...grafana(range, step, least) });
      const { result } = target.instant
        ? await this.get('query', { query, time: end })
        : await this.get('query_range', { query, start: end - range, end, step });
      return { refId: target.refId, instant: target.instant, legend: target.legendFormat, result };
    }));
  }

  // events returns the number of events of an annotation.
  async events(annotation, values, range, end) {
    const step = Math.max(seconds[annotation.step], Math.ceil(range / 11000));
    const query = fill(annotation.expr, { ...values, ...grafana(range, step, step) });
    const { result } = await this.get('query_range', { query, start: end - range, end, step });
    return result.reduce((n, { values: all }) => n + all.length, 0);
  }
}
