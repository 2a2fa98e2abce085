{{/* Rejects values without an effect in the mode of the exporter. */}}
{{- define "gpuledger.checkMode" -}}
{{- $v := .Values }}
{{- if eq $v.exporter.mode "sidecar" }}
{{- $useless := dict "kubeletPath" (ne $v.kubeletPath "/var/lib/kubelet") "nfd.enabled" $v.nfd.enabled "scrapeAnnotations.enabled" $v.scrapeAnnotations.enabled }}
{{- $_ := set $useless "dcgm.namespace" (ne $v.dcgm.namespace "gpu-operator") }}
{{- $_ := set $useless "dcgm.podLabels" (ne (toJson $v.dcgm.podLabels) (toJson (dict "app" "nvidia-dcgm"))) }}
{{- range list "affinity" "extraEnv" "extraHostVolumes" "extraVolumeMounts" "nodeSelector" "podAnnotations" "podLabels" "priorityClassName" "resources" "runtimeClassName" "tolerations" "updateStrategy" }}
{{- $_ := set $useless . (get $v .) }}
{{- end }}
{{- range $name, $set := $useless }}{{ if $set }}
{{- fail (printf "%s has no effect with exporter.mode=sidecar, where the exporter is in the device plugin's pods: remove it, or use exporter.mode=daemonset" $name) }}
{{- end }}{{ end }}
{{- if ne (include "gpuledger.injector" .) "webhook" }}{{ range $name, $set := $v.sidecar.webhook }}{{ if $set }}
{{- fail (printf "sidecar.webhook.%s has no effect with an admission policy: remove it, or use sidecar.injector=webhook" $name) }}
{{- end }}{{ end }}
{{- else if not $v.reconciler.enabled }}
{{- fail "sidecar.injector=webhook needs reconciler.enabled: the reconciler serves the webhook" }}
{{- end }}
{{- else }}
{{- range $name, $set := $v.sidecar.webhook }}{{ if $set }}
{{- fail (printf "sidecar.webhook.%s has no effect with exporter.mode=daemonset: remove it, or use exporter.mode=sidecar" $name) }}
{{- end }}{{ end }}
{{- range $section := list "devicePlugin" "sidecar" }}{{ range $name, $set := omit (get $v $section) "webhook" }}{{ if $set }}
{{- fail (printf "%s.%s has no effect with exporter.mode=daemonset: remove it, or use exporter.mode=sidecar" $section $name) }}
{{- end }}{{ end }}{{ end }}
{{- end }}
{{- end }}

{{/* The YAML documents of the selected overlay and components. */}}
{{- define "gpuledger.documents" -}}
{{- include "gpuledger.checkMode" . }}
{{- $overlay := .Values.platform | default "standalone" }}
{{- if eq .Values.exporter.mode "sidecar" }}
{{- if not (has .Values.platform (list "" "gpu-operator" "amd")) }}{{ fail (printf "exporter.mode=sidecar works with the platforms gpu-operator and amd and without one, but platform is %s: use exporter.mode=daemonset" .Values.platform) }}{{ end }}
{{- $overlay = "operator" }}
{{- else if eq $overlay "gpu-operator" }}
{{- $overlay = "operator-standalone" }}
{{- end }}
{{- $files := list (printf "overlays/%s.yaml" $overlay) }}
{{- if and (eq .Values.exporter.mode "sidecar") (eq (include "gpuledger.injector" .) "webhook") }}{{ $files = append $files "components/webhook.yaml" }}{{ end }}
{{- if and .Values.reconciler.enabled .Values.reconciler.labels.enabled }}{{ $files = append $files "components/labels.yaml" }}{{ end }}
{{- if and .Values.reconciler.enabled .Values.reconciler.nodeCondition.enabled }}{{ $files = append $files "components/node-condition.yaml" }}{{ end }}
{{- if .Values.archive.enabled }}{{ $files = append $files "components/archive.yaml" }}{{ end }}
{{- if and .Values.archive.enabled .Values.archive.events.enabled }}{{ $files = append $files "components/events.yaml" }}{{ end }}
{{- if and .Values.podMonitor.enabled .Values.serviceMonitor.enabled }}
{{- fail "podMonitor.enabled and serviceMonitor.enabled would scrape every exporter twice: set one of them" }}
{{- end }}
{{- if or .Values.podMonitor.enabled .Values.serviceMonitor.enabled }}{{ $files = append $files "components/podmonitor.yaml" }}{{ end }}
{{- if .Values.clusterPodMonitoring.enabled }}{{ $files = append $files "components/clusterpodmonitoring.yaml" }}{{ end }}
{{- if .Values.networkPolicy.enabled }}
{{- $files = append $files "components/isolation.yaml" }}
{{- if and (eq .Values.exporter.mode "sidecar") (not .Values.sidecar.host) }}{{ $files = append $files "components/isolation-sidecar.yaml" }}{{ end }}
{{- if .Values.dcgm.enabled }}{{ $files = append $files "components/dcgm.yaml" }}{{ end }}
{{- end }}
{{- if .Values.prepull.enabled }}{{ $files = append $files "components/prepull.yaml" }}{{ end }}
{{- if .Values.prometheusRule.enabled }}{{ $files = append $files "components/rules.yaml" }}{{ end }}
{{- if .Values.dashboards.enabled }}{{ $files = append $files "components/dashboards.yaml" }}{{ end }}
{{- $documents := list }}
{{- range $files }}
{{- $text := $.Files.Get (printf "files/%s" .) }}
{{- if not $text }}{{ fail (printf "the chart lacks files/%s: install a released chart, or run make chart" .) }}{{ end }}
{{- $documents = append $documents (trim $text) }}
{{- end }}
{{- join "\n---\n" $documents }}
{{- end }}

{{/* Not empty if the values select an object. Arguments: root, object. */}}
{{- define "gpuledger.selected" -}}
{{- $v := .root.Values }}
{{- $component := dig "spec" "selector" "matchLabels" "app.kubernetes.io/component" (dig "spec" "podSelector" "matchLabels" "app.kubernetes.io/component" "" .object) .object }}
{{- $reconciler := or (eq $component "reconciler") (hasPrefix "gpuledger-reconciler" .object.metadata.name) }}
{{- $archive := or (eq $component "archive") (hasPrefix "gpuledger-archive" .object.metadata.name) }}
{{- $exporter := and (eq .object.kind "NetworkPolicy") (eq $component "exporter") }}
{{- $webhook := and (eq $v.exporter.mode "sidecar") (eq (include "gpuledger.injector" .root) "webhook") }}
{{- $policy := hasPrefix "MutatingAdmissionPolicy" .object.kind }}
{{- $certificates := and $v.sidecar.webhook.existingSecret (eq .object.metadata.name "gpuledger-webhook") (eq .object.kind "Secret") }}
{{- if and (ne .object.kind "Namespace")
  (or $v.reconciler.enabled (not $reconciler))
  (or $v.archive.enabled (not $archive))
  (not (and $webhook $policy))
  (not $certificates)
  (or (eq $v.exporter.mode "daemonset") (not $exporter)) }}yes{{ end }}
{{- end }}
