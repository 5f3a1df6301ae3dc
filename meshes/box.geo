// The box (0, length)^3. With layers > 0 the unstructured bottom is extruded in that many layers: hexahedra when recombined.
DefineConstant[ h = 0.2, length = 1, layers = 0 ];
SetFactory("OpenCASCADE");
If (layers > 0)
  Rectangle(1) = {0, 0, 0, length, length};
  Extrude {0, 0, length} { Surface{1}; Layers{layers}; Recombine; }
Else
  Box(1) = {0, 0, 0, length, length, length};
EndIf
e = 1e-6 * length;
a = -e;
b = length + e;
Physical Volume("domain", 1) = {1};
Physical Surface("left", 2) = Surface In BoundingBox {a, a, a, e, b, b};
Physical Surface("right", 3) = Surface In BoundingBox {length - e, a, a, b, b, b};
Physical Surface("front", 4) = Surface In BoundingBox {a, a, a, b, e, b};
Physical Surface("back", 5) = Surface In BoundingBox {a, length - e, a, b, b, b};
Physical Surface("bottom", 6) = Surface In BoundingBox {a, a, a, b, b, e};
Physical Surface("top", 7) = Surface In BoundingBox {a, a, length - e, b, b, b};
Mesh.MeshSizeMin = h;
Mesh.MeshSizeMax = h;
