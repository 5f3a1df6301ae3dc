// The ring between two circles around the origin: not simply connected, so curl-free fields need not be gradients.
DefineConstant[ h = 0.08, inner = 0.5, outer = 1 ];
Point(1) = {0, 0, 0, h};
For k In {0:1}
  r = k ? outer : inner;
  Point(10*k + 2) = {r, 0, 0, h};
  Point(10*k + 3) = {0, r, 0, h};
  Point(10*k + 4) = {-r, 0, 0, h};
  Point(10*k + 5) = {0, -r, 0, h};
  For i In {0:3}
    Circle(10*k + 1 + i) = {10*k + 2 + i, 1, 10*k + 2 + (i + 1) % 4};
  EndFor
  Curve Loop(k + 1) = {10*k + 1 : 10*k + 4};
EndFor
Plane Surface(1) = {2, 1};
Physical Surface("domain", 1) = {1};
Physical Curve("inner", 2) = {1 : 4};
Physical Curve("outer", 3) = {11 : 14};
