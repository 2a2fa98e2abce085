package table_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

var start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// fill sets each field of a row to a different value. It returns the values by the names that [field] returns.
func fill(row reflect.Value) map[string]string {
	values := make(map[string]string)
	for i := range row.NumField() {
		switch to := row.Field(i).Addr().Interface().(type) {
		case *string:
			*to = row.Type().Field(i).Name
		case *int64:
			*to = int64(100 + i)
		case **int64:
			*to = new(int64(100 + i))
		case *time.Time:
			*to = start.Add(time.Duration(i) * time.Minute)
		case *table.Counts:
			*to = table.Counts{row.Type().Field(i).Name: int64(i)}
		default:
			panic(row.Type().Field(i).Name)
		}
		values[field(row.Type().Field(i).Name)] = text(row.Field(i).Interface())
	}
	return values
}

// field returns the part that the names of a field and its column share, such as gpu for GPUTime and gpu_ms.
func field(name string) string {
	for _, unit := range []string{"Time", "_mj", "_ms", "_seen"} {
		name = strings.TrimSuffix(name, unit)
	}
	return strings.ToLower(strings.ReplaceAll(name, "_", ""))
}

func text(value any) string {
	if n, ok := value.(*int64); ok {
		value = *n
	}
	return fmt.Sprint(value)
}

// The value of each field must be in the column with the corresponding name. The cluster and the hour come from the
// [table.Hour], and charges have no model. ChargeIn must return all other fields. Otherwise the correction of a removed
// charge would have no team and no workload.
func TestFields(t *testing.T) {
	var gpu table.GPU
	var charge table.Charge
	var pod table.Pod
	var workload table.Workload
	h := &table.Hour{Cluster: "Cluster", Start: start.Add(time.Minute)} // the hour is the second field of a row
	charges := fill(reflect.ValueOf(&charge).Elem())
	delete(charges, "model")
	for _, tt := range []struct {
		of     table.Table
		values map[string]string
	}{
		{table.GPUHours, fill(reflect.ValueOf(&gpu).Elem())},
		{table.Charges, charges},
		{table.Pods, fill(reflect.ValueOf(&pod).Elem())},
		{table.Workloads, fill(reflect.ValueOf(&workload).Elem())},
	} {
		tt.values["cluster"], tt.values["hour"] = h.Cluster, text(h.Start)
		h.GPUs, h.Charges, h.Pods, h.Workloads = []table.GPU{gpu}, []table.Charge{charge}, []table.Pod{pod}, []table.Workload{workload}
		got := make(map[string]string)
		for i, value := range tt.of.Rows(h)[0] {
			got[field(tt.of.Columns[i].Name)] = text(value)
		}
		if diff := cmp.Diff(tt.values, got); diff != "" {
			t.Errorf("%s (-fields +columns):\n%s", tt.of.Name, diff)
		}
	}
	charge.Cluster, charge.Hour, charge.Model = "", time.Time{}, ""
	if diff := cmp.Diff(charge, table.ChargeIn(table.Charges, table.Charges.Rows(h)[0])); diff != "" {
		t.Errorf("a charge (-filed +read):\n%s", diff)
	}
}

// Add and Clear must change all integers of a charge, and no strings or times.
func TestAmounts(t *testing.T) {
	var one table.Charge
	fill(reflect.ValueOf(&one).Elem())
	sum := one
	sum.Add(&one)
	for i := range reflect.TypeFor[table.Charge]().NumField() {
		was, now := reflect.ValueOf(one).Field(i), reflect.ValueOf(sum).Field(i)
		if was.Kind() == reflect.Pointer {
			was, now = was.Elem(), now.Elem()
		}
		if was.CanInt() && now.Int() != 2*was.Int() || !was.CanInt() && !was.Equal(now) {
			t.Errorf("%s is %v after adding %v to itself", reflect.TypeFor[table.Charge]().Field(i).Name, now, was)
		}
	}
	if sum.Clear(); !sum.IsZero() || one.IsZero() || sum.Namespace != "Namespace" {
		t.Errorf("cleared to %+v", sum)
	}
	if sum.Profiled != nil {
		t.Error("a cleared optional amount is known")
	}
	if sum.Add(&one); *sum.Profiled != *one.Profiled || sum.Profiled == one.Profiled {
		t.Errorf("unknown and %d add up to %d", *one.Profiled, *sum.Profiled)
	}
	if all := table.Difference([]table.Charge{one}, []table.Charge{one}); len(all) > 0 {
		t.Errorf("equal charges differ by %+v", all)
	}
}
