package deploy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestLiteral(t *testing.T) {
	tests := []struct {
		name  string
		value any
		want  string
	}{
		{"text", "it's \\ two\nlines", `'it\'s \\ two\nlines'`},
		{"variable", "${image}", "variables.image"},
		{"not a variable", "a ${image}", "'a ${image}'"},
		{"list", []string{"a", "b"}, "['a', 'b']"},
		{"empty list", []string(nil), "[]"},
		{"map in order", map[string]string{"b": "2", "a": "1"}, "{'a': '1', 'b': '2'}"},
		{
			"set fields, by their names in the API",
			corev1.Container{Name: "c", Ports: []corev1.ContainerPort{{ContainerPort: 1}}},
			"T{name: 'c', ports: [T.ports{containerPort: 1}]}",
		},
		{
			"a pointer to the zero value",
			&corev1.SecurityContext{RunAsUser: new(int64(0)), Privileged: new(false)},
			"T{privileged: false, runAsUser: 0}",
		},
		{
			"fields of an embedded type",
			corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/p"}}},
			"T{name: 'v', hostPath: T.hostPath{path: '/p'}}",
		},
		{
			"quantities",
			corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("1Mi")}},
			"T{limits: {'memory': '1Mi'}}",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := literal("T", tt.value); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestLiteralOfAnotherKind(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("literal of a float did not panic")
		}
	}()
	literal("T", 1.5)
}
