{{- define "postrider.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "postrider.selector" -}}
app.kubernetes.io/name: postrider
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "postrider.labels" -}}
{{ include "postrider.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* Of each setting, an environment variable: POSTRIDER__SECTION__KEY. */}}
{{- define "postrider.settings" -}}
{{- range $section, $keys := .Values.settings }}
{{- range $key, $value := $keys }}
- name: {{ printf "POSTRIDER__%s__%s" $section $key | upper }}
  value: {{ include "postrider.value" $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Whole numbers of a YAML file are read as floats. */}}
{{- define "postrider.value" -}}
{{- if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- end -}}
